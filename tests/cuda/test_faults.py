"""GPU groups when things go wrong: calls that stay in progress, operations that never end, errors of the engine.
Each ends in the right error by its deadline, the process lives, and a new group works.
"""

from __future__ import annotations

import pytest
import torch

from tests.cuda_emulator.nccl import Point, Result
from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks, context

from ._breaking import OPERATIONS, get_stuck, issue_until_it_fails, options, renew
from ._group import gpu_backend, meet, nccl, sum_works

_DEADLINE_S = 2.0
_GRACE_S = 3.0  # until whoever waits has heard of it, on a loaded machine


# --- calls that stay in progress


def check_stuck(rank: int, world: int, point: Point) -> Caught:
    if point is not Point.INIT:
        sum_works(world)
    if rank == 0:
        nccl().stay_in_progress(point)

    def go() -> None:
        if point is Point.SPLIT:
            child = gpu_backend().split(context().store("child"), list(range(world)), options(_DEADLINE_S))
            child.allreduce([torch.ones(4, device="cuda")]).wait()
            torch.cuda.synchronize()
            return
        issue_until_it_fails("all_reduce", rank, world)

    caught = needed(go)
    meet("over", rank, world)  # whoever ends the group before the others' deadline is what they hear of
    nccl().clear_faults()
    renew("after")
    sum_works(world)
    return caught


@pytest.mark.parametrize("point", [Point.INIT, Point.SPLIT, Point.OPERATION])
@pytest.mark.parametrize("world", [2, 4])
def test_in_progress_for_ever_ends_by_the_deadline(ranks: Ranks, world: int, point: Point) -> None:
    for caught in ranks.run(check_stuck, point, world=world, group_timeout=_DEADLINE_S, fresh=True):
        assert caught.kind == "CollectiveTimeout", caught
        assert caught.seconds() < 2 * _DEADLINE_S + _GRACE_S, caught


def check_slow(rank: int, world: int, point: Point) -> None:
    nccl().stay_in_progress(point, polls=50, times=3)
    sum_works(world)
    assert nccl().faults_struck() > 0


@pytest.mark.parametrize("point", [Point.INIT, Point.OPERATION])
def test_in_progress_for_a_while_is_waited_for(ranks: Ranks, point: Point) -> None:
    ranks.run(check_slow, point, world=2, fresh=True)


# --- operations that never end, and the engine's errors


def check_hang(rank: int, world: int, op: str) -> Caught:
    sum_works(world)
    if rank == 0:
        get_stuck(op)
    caught = needed(lambda: issue_until_it_fails(op, rank, world))
    meet("over", rank, world)
    renew("after")
    sum_works(world)
    return caught


@pytest.mark.parametrize("op", OPERATIONS)
def test_an_operation_that_never_ends_times_out(ranks: Ranks, op: str) -> None:
    for caught in ranks.run(check_hang, op, world=2, group_timeout=_DEADLINE_S, fresh=True):
        assert caught.kind == "CollectiveTimeout", caught
        assert caught.seconds() < _DEADLINE_S + _GRACE_S, caught


def check_async_error(rank: int, world: int) -> Caught:
    sum_works(world)
    if rank == 0:
        nccl().fail_operation(Result.SYSTEM_ERROR, after=3, reason="the network card fell out")
    caught = needed(lambda: issue_until_it_fails("all_reduce", rank, world))
    meet("over", rank, world)
    return caught


def test_the_engines_error_is_told_to_all(ranks: Ranks) -> None:
    """Long before the deadline of those that have not met it."""
    for caught in ranks.run(check_async_error, world=3, group_timeout=60.0, fresh=True):
        assert "the network card fell out" in caught.text, caught
        assert caught.seconds() < _GRACE_S, caught
