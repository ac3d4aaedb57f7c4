"""Every operation of a GPU group, for tests that break it; and what such tests do before and after. Runs on a rank."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from tests.cuda_emulator.nccl import Point
from tests.multirank._harness import context

from ._group import nccl

_PART = 1024
_PATIENCE_S = 30.0


def renew(name: str) -> None:
    """What a program does that wants to go on: end the broken group and make another."""
    dist.destroy_process_group()
    context().init(name, timeout=30.0)


def options(timeout: float) -> Any:
    import pycomms

    return pycomms.Options(timeout=timedelta(seconds=timeout))


# --- operations. The first rank and the last are root, sender and receiver, so both always take part.


def _whole(world: int) -> torch.Tensor:
    return torch.ones(_PART * world, device="cuda")


def _part() -> torch.Tensor:
    return torch.ones(_PART, device="cuda")


def _gather(rank: int, world: int, group: Any) -> None:
    out = [_part() for _ in range(world)] if rank == 0 else None
    dist.gather(_part(), out, dst=0, group=group)


def _scatter(rank: int, world: int, group: Any) -> None:
    parts = [_part() for _ in range(world)] if rank == 0 else None
    dist.scatter(_part(), parts, src=0, group=group)


def _message(rank: int, world: int, group: Any, source: int, target: int) -> None:
    if rank == source:
        dist.send(_part(), target, group=group)
    elif rank == target:
        dist.recv(_part(), source, group=group)


def _block(rank: int, world: int, group: Any) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    with _coalescing_manager(group, device=device, async_ops=True) as manager:
        dist.broadcast(_part(), 0, group=group)
        dist.all_to_all_single(_whole(world), _whole(world), group=group)
        dist.all_reduce(_part(), group=group)
    manager.wait()


_Issue = Callable[[int, int, Any], Any]

OPERATIONS: dict[str, _Issue] = {
    "all_reduce": lambda rank, world, group: dist.all_reduce(_whole(world), group=group),
    "broadcast": lambda rank, world, group: dist.broadcast(_whole(world), 0, group=group),
    "reduce": lambda rank, world, group: dist.reduce(_whole(world), 0, group=group),
    "all_gather": lambda rank, world, group: dist.all_gather_single(_whole(world), _part(), group=group),
    "reduce_scatter": lambda rank, world, group: dist.reduce_scatter_single(_part(), _whole(world), group=group),
    "all_to_all": lambda rank, world, group: dist.all_to_all_single(_whole(world), _whole(world), group=group),
    "gather": _gather,
    "scatter": _scatter,
    "send": lambda rank, world, group: _message(rank, world, group, 0, world - 1),
    "recv": lambda rank, world, group: _message(rank, world, group, world - 1, 0),
    "barrier": lambda rank, world, group: dist.barrier(group=group),
    "block": _block,
}


def issue(op: str, rank: int, world: int, group: Any = None) -> None:
    OPERATIONS[op](rank, world, group)


def get_stuck(op: str) -> None:
    """This rank's next operation never ends. In a block that would be one of several, and the others would go on: there
    it is the issuing of all.
    """
    if op == "block":
        nccl().stay_in_progress(Point.OPERATION)
    else:
        nccl().hang_operation()


def until_it_is_stuck() -> None:
    event = threading.Event()
    deadline = time.monotonic() + _PATIENCE_S
    while nccl().faults_struck() == 0 and time.monotonic() < deadline:
        event.wait(0.001)
    assert nccl().faults_struck() == 1


def issue_until_it_fails(op: str, rank: int, world: int) -> None:
    """A later call tells what became of what is in flight."""
    while True:
        issue(op, rank, world)
        torch.cuda.synchronize()
