"""Groups that a session makes for itself: of this process alone until it says whom they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from pycomms import _C
from pycomms._config import config

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import GroupName


def lone_backend(rank: int = 0, size: int = 1, *, name: str = "") -> _C.Backend:
    """Connects to nobody. One with several ranks has to regroup before it is used."""
    options = _C.Options(connect=_C.Connect.LAZY)
    if name:
        options.group_name = cast("GroupName", name)
    return _C.create(HashStore(), rank, size, options, str(config().engine), config().vector_width)


def untold_group(backend: _C.Backend) -> dist.ProcessGroup:
    """A group that not even torch's tables know of."""
    group = dist.ProcessGroup(HashStore(), backend.rank(), backend.size())
    for device in ("cpu", "cuda"):
        group._register_backend(torch.device(device), dist.ProcessGroup.BackendType.CUSTOM, backend)
    return group
