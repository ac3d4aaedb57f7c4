"""Abort: from another thread during every operation; of many groups together, which may not wait for each other."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _abort_process_group, _get_default_group

from tests.cuda_emulator.nccl import Point
from tests.multirank._errors import Caught, catch
from tests.multirank._harness import Ranks, context

from ._breaking import (
    OPERATIONS,
    get_stuck,
    gpu_backend,
    issue_until_it_fails,
    meet,
    nccl,
    options,
    renew,
    sum_works,
    until_it_is_stuck,
)

_BOUND_S = (
    8.0  # less than the ten seconds after which the backend gives up waiting for an engine, loaded machine or not
)
_PATIENCE_S = 30.0


# --- during an operation


def during(rank: int, world: int, op: str) -> Caught | None:
    sum_works(world)
    if rank == 0:
        get_stuck(op)
    group = _get_default_group()
    caught: list[Caught | None] = []
    caller = threading.Thread(target=lambda: caught.append(catch(lambda: issue_until_it_fails(op, rank, world))))
    caller.start()
    if rank == 0:
        until_it_is_stuck()
    meet("stuck", rank, world)
    group.abort()
    caller.join(_PATIENCE_S)
    assert not caller.is_alive()
    renew("after")
    sum_works(world)
    return caught[0]


@pytest.mark.parametrize("op", OPERATIONS)
def test_from_another_thread(ranks: Ranks, op: str) -> None:
    for caught in ranks.run(during, op, world=2, group_timeout=60.0, fresh=True):
        assert caught is not None
        assert "Communicator" in caught.kind, (caught.kind, caught.text)
        assert caught.seconds() < _BOUND_S, caught


def in_progress(rank: int, world: int, point: Point) -> Caught | None:
    """While rank 0's engine stays in progress, and rank 1 waits for it in the call."""
    if point is Point.SPLIT:
        sum_works(world)
    if rank == 0:
        nccl().stay_in_progress(point)
    group = _get_default_group()
    everyone = list(range(world))

    def call() -> None:
        if point is Point.SPLIT:
            gpu_backend().split(context().store("child"), everyone, options(60.0))
        else:
            sum_works(world)

    caught: list[Caught | None] = []
    caller = threading.Thread(target=lambda: caught.append(catch(call)))
    caller.start()
    if rank == 0:
        until_it_is_stuck()
    meet("stuck", rank, world)
    group.abort()
    caller.join(_PATIENCE_S)
    assert not caller.is_alive()
    nccl().clear_faults()
    renew("after")
    sum_works(world)
    return caught[0]


@pytest.mark.parametrize("point", Point)
def test_of_a_call_in_progress(ranks: Ranks, point: Point) -> None:
    for caught in ranks.run(in_progress, point, world=2, group_timeout=60.0, fresh=True):
        assert caught is not None
        assert caught.seconds() < _BOUND_S, caught


# --- many together

_GROUPS = 8


def _stuck_groups(rank: int, world: int) -> list[Any]:
    """Groups whose operations on this GPU never end, each on a stream of its own."""
    groups: list[Any] = [dist.new_group(list(range(world))) for _ in range(_GROUPS)]
    for group in groups:
        sum_works(world, group)
    for group in groups:
        if rank == 0:
            nccl().hang_operation()
        dist.all_reduce(torch.ones(4, device="cuda"), group=group, async_op=True)
    if rank == 0:
        assert nccl().faults_struck() == _GROUPS
    return groups


def together(rank: int, world: int, how: str, waits: bool) -> float:
    """Seconds until the GPU has nothing left to do."""
    groups = _stuck_groups(rank, world)
    if waits:
        nccl().abort_waits_for_device()
    meet("stuck", rank, world)
    begin = time.monotonic()
    if how == "one thread":
        for group in groups:
            group.abort()
    elif how == "threads":
        with ThreadPoolExecutor(_GROUPS) as threads:
            list(threads.map(lambda group: group.abort(), groups))
    else:  # torch's own, of all groups in a coalesced block
        _abort_process_group()
    torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    if dist.is_initialized():
        dist.destroy_process_group()
    context().init("after")
    sum_works(world)
    return seconds


@pytest.mark.parametrize("waits", [False, True], ids=["", "waits for the GPU"])
@pytest.mark.parametrize("how", ["one thread", "threads", "torch"])
def test_eight_groups_together(ranks: Ranks, how: str, waits: bool) -> None:
    """`waits`: the engine's abort returns when the GPU has nothing left to do, as the real one may: the abort of one
    group then ends only when the others have been aborted too.
    """
    for seconds in ranks.run(together, how, waits, world=2, group_timeout=60.0, fresh=True, timeout=110.0):
        assert seconds < _BOUND_S


def abort_in_a_block(rank: int, world: int) -> None:
    """torch aborts all groups in a block of the default one. The block ends with the group."""
    sum_works(world)
    group = _get_default_group()
    device = torch.device("cuda", torch.cuda.current_device())
    meet("ready", rank, world)
    group._start_coalescing(device)
    dist.broadcast(torch.ones(4, device="cuda"), 0)
    group.abort()
    work: Any = group._end_coalescing(device)
    work.wait()


def test_an_abort_ends_the_block_around_it(ranks: Ranks) -> None:
    ranks.run(abort_in_a_block, world=2, fresh=True)
