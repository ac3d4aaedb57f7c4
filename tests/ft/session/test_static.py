"""Members of a group that cannot change: under torchrun, or over gloo."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
import torch.distributed as dist

from pycomms import ft
from pycomms.ft._losses import Loss
from pycomms.ft._static import StaticMembership
from pycomms.ft.core.messages import Position


def test_a_loss_says_what_would_have_gone_on() -> None:
    group = cast("dist.ProcessGroup", SimpleNamespace(rank=lambda: 1))
    membership = StaticMembership(group)
    with pytest.raises(ft.SessionError, match=r"rank 2 died\. Started by `pycomms run` .* checkpoints="):
        membership.stand(Position(), Loss(suspects=(), reason="rank 2 died"))
