"""What tests of registered memory share: the group's backend, pools with tensors in them, and what NCCL has of them."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

MIB = 1 << 20
BIG = 32 * MIB  # bytes: a segment of its own in torch's allocator


def nccl() -> Any:
    from ._preload import nccl as emulated  # on a rank only

    return emulated


def backend(group: dist.ProcessGroup | None = None) -> Any:
    return (group or _get_default_group())._get_backend(torch.device("cuda"))


def nccl_pool(group: dist.ProcessGroup | None = None) -> Any:
    return torch.cuda.MemPool(backend(group).mem_allocator)


def tensor_in(pool: Any, size: int = BIG) -> torch.Tensor:
    with torch.cuda.use_mem_pool(pool):
        return torch.ones(size, dtype=torch.uint8, device="cuda")


def sum_works(rank: int, world: int, group: dist.ProcessGroup | None = None) -> None:
    tensor = torch.full((4,), float(rank + 1), device="cuda")
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [world * (world + 1) / 2] * 4


def sum_in_place_works(tensor: torch.Tensor, world: int, group: dist.ProcessGroup | None = None) -> None:
    """In the pool's own memory."""
    tensor.fill_(1)
    dist.all_reduce(tensor, group=group)
    assert bool((tensor == world).all())


def collect() -> None:
    """Gives back what nobody uses, segments included."""
    gc.collect()
    torch.cuda.empty_cache()


def eventually(holds: Callable[[], bool]) -> None:
    """For what another thread of the process does: a member's abort is heard of at any moment."""
    deadline = time.monotonic() + 20.0
    while not holds():
        assert time.monotonic() < deadline
        os.sched_yield()


@dataclass(frozen=True)
class Registered:
    buffers: int
    windows: int


def registered() -> Registered:
    live = nccl().live()
    return Registered(live.registrations, live.windows)
