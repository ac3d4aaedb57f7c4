"""How a check begins on a rank: a GPU of its own, or a share of the only one, and a group. Runs on a rank only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.multirank._harness import context


def play(rank: int, world: int, check: Callable[..., Any], bound: bool, *args: Any) -> Any:
    """check(rank, world, *args) in a group of all ranks. bound: the group is given its GPU as device_id."""
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    torch.cuda.graph.default_capture_stream = None  # torch keeps that of the GPU that this process had before
    context().init(device_id=device if bound else None)
    return check(rank, world, *args)
