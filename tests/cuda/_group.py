"""The GPU group of a rank, for tests: its backend, the emulated libnccl under it, whether it works. Runs on a rank."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from tests.multirank._harness import context


def nccl() -> Any:
    """The emulated libnccl."""
    from ._preload import nccl as loaded  # on a rank only

    return loaded


def gpu_backend(group: Any = None) -> Any:
    return (group or _get_default_group())._get_backend(torch.device("cuda"))


def sum_works(world: int, group: Any = None) -> None:
    tensor = torch.full((4,), float(dist.get_rank(group) + 1), device="cuda")
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [world * (world + 1) / 2] * 4


def meet(name: str, rank: int, world: int) -> None:
    """Without the groups, which are broken or about to be."""
    context().signpost(f"{name} {rank}")
    for peer in range(world):
        context().await_signpost(f"{name} {peer}")
