"""Abort from another thread: during every operation, and of calls in progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from torch.distributed.distributed_c10d import _get_default_group

from tests.cuda_emulator.nccl import Point
from tests.multirank._errors import Caught, catch
from tests.multirank._harness import Ranks, context

from ._breaking import OPERATIONS, get_stuck, issue_until_it_fails, options, renew, until_it_is_stuck
from ._group import gpu_backend, meet, nccl, sum_works

_BOUND_S = 8.0  # less than the ten seconds after which the backend gives up waiting for an engine
_PATIENCE_S = 30.0


def _abort_while(call: Callable[[], Any], rank: int, world: int) -> Caught | None:
    """What a thread got that was in the call when another one aborted the group. A new group works then."""
    group = _get_default_group()
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


# --- during an operation


def during(rank: int, world: int, op: str) -> Caught | None:
    sum_works(world)
    if rank == 0:
        get_stuck(op)
    return _abort_while(lambda: issue_until_it_fails(op, rank, world), rank, world)


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
    everyone = list(range(world))

    def call() -> None:
        if point is Point.SPLIT:
            gpu_backend().split(context().store("child"), everyone, options(60.0))
        else:
            sum_works(world)

    return _abort_while(call, rank, world)


@pytest.mark.parametrize("point", Point)
def test_of_a_call_in_progress(ranks: Ranks, point: Point) -> None:
    for caught in ranks.run(in_progress, point, world=2, group_timeout=60.0, fresh=True):
        assert caught is not None
        assert caught.seconds() < _BOUND_S, caught
