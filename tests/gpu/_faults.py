"""What goes wrong on a real GPU, too: a rank that stays away or is killed, an abort from another thread. Each ends in
the right error by its deadline, and a new group works. Runs on a rank only.
"""

from __future__ import annotations

import threading
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from tests.multirank._errors import Caught, catch, needed
from tests.multirank._harness import context

DEADLINE_S = 3.0
_GRACE_S = 5.0  # until whoever waits has heard of it, on a loaded machine
_PATIENCE_S = 15.0
_NEW_GROUP = timedelta(seconds=20)
_CALLS = 1000


def _sum_works(rank: int, world: int) -> None:
    tensor = torch.full((4,), float(rank + 1), device="cuda")
    dist.all_reduce(tensor)
    assert tensor.tolist() == [world * (world + 1) / 2] * 4


def _renew(rank: int, world: int, name: str) -> None:
    """What a program does that wants to go on: end the broken group and make another."""
    dist.destroy_process_group()
    dist.init_process_group(
        context().backend, store=context().store(name), rank=rank, world_size=world, timeout=_NEW_GROUP
    )
    _sum_works(rank, world)


def _use() -> None:
    """Until the error is raised: a later call tells what became of what is in flight."""
    for _ in range(_CALLS):
        dist.all_reduce(torch.ones(1024, device="cuda"))
        torch.cuda.synchronize()


def abort_of_an_idle_group(rank: int, world: int) -> None:
    _sum_works(rank, world)
    torch.cuda.synchronize()
    _get_default_group().abort()
    needed(_use)
    _renew(rank, world, "after an abort")


def abort_from_another_thread(rank: int, world: int) -> None:
    """Rank 0 is stuck in an operation for which the others do not come."""
    _sum_works(rank, world)
    group = _get_default_group()
    if rank == 0:
        _abort_while_stuck(group)
        context().signpost("aborted")
    context().await_signpost("aborted")
    if rank != 0:
        group.abort()
    _renew(rank, world, "after an abort")


def _abort_while_stuck(group: dist.ProcessGroup) -> None:
    issued = threading.Event()
    caught: list[Caught | None] = []

    def be_stuck() -> None:
        dist.all_reduce(torch.ones(1024, device="cuda"))
        issued.set()
        torch.cuda.synchronize()
        _use()

    thread = threading.Thread(target=lambda: caught.append(catch(be_stuck)), name="stuck")
    thread.start()
    assert issued.wait(_PATIENCE_S)
    group.abort()
    thread.join(_PATIENCE_S)
    assert not thread.is_alive(), "the abort did not release the thread that waits for the GPU"
    assert caught[0] is not None
    assert caught[0].kind in ("CommunicatorRevoked", "CommunicatorClosed"), caught[0]


def a_deadline_passes(rank: int, world: int) -> None:
    _sum_works(rank, world)
    if rank == 0:
        caught = needed(_use)
        assert caught.kind == "CollectiveTimeout", caught
        assert caught.seconds() < DEADLINE_S + _GRACE_S, caught
        context().signpost("timed out")
    context().await_signpost("timed out")
    if rank != 0:
        caught = needed(_use)
        assert caught.kind in ("CollectiveTimeout", "PeerFailure", "CommunicatorRevoked"), caught
    _renew(rank, world, "after a timeout")


def a_rank_is_killed(rank: int, world: int) -> None:
    """The parent kills the last one. The others go on without it."""
    _sum_works(rank, world)
    context().tell("ready")
    caught = needed(_use_without_end)
    assert caught.kind == "PeerFailure", caught
    assert caught.ranks == (world - 1,), caught
    _renew(rank, world - 1, "survivors")


def _use_without_end() -> None:
    while True:  # the group's deadline ends it at the latest
        _use()
