"""A rank is killed in each operation: the survivors name it, soon. The times are printed at the end of the session."""

from __future__ import annotations

import signal
import statistics
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.cuda_emulator.nccl import Point
from tests.multirank._errors import Caught, catch, needed
from tests.multirank._harness import Ranks, context
from tests.multirank._tally import FIGURES

from ._breaking import OPERATIONS, get_stuck, issue_until_it_fails, options, until_it_is_stuck
from ._group import gpu_backend, nccl, sum_works

_BOUND_S = 3.0  # on a loaded machine
_WHILE_RUNNING = ("all_reduce", "block")


def die_or_survive(rank: int, world: int, op: str, moment: str) -> Caught:
    """The last rank dies: stuck in the operation while the others wait for it in theirs, or at any moment of many."""
    sum_works(world)
    is_victim = rank == world - 1
    if is_victim and moment == "in it":
        get_stuck(op)
        # A barrier blocks the thread that issues it.
        threading.Thread(target=lambda: catch(lambda: issue_until_it_fails(op, rank, world)), daemon=True).start()
        until_it_is_stuck()
    context().tell("ready")
    return needed(lambda: issue_until_it_fails(op, rank, world))


def die_in_a_split(rank: int, world: int) -> Caught:
    sum_works(world)
    if rank == world - 1:
        nccl().stay_in_progress(Point.SPLIT)
    context().tell("ready")
    return needed(lambda: gpu_backend().split(context().store("child"), list(range(world)), options(20.0)))


def _seconds_to_raise(ranks: Ranks, op: str, moment: str) -> list[float]:
    if op == "split":
        return _kill(ranks, die_in_a_split, world=3)
    return _kill(ranks, die_or_survive, op, moment, world=2 if op in ("send", "recv") else 3)


def _kill(ranks: Ranks, play: Callable[..., Caught], *args: Any, world: int) -> list[float]:
    with ranks.start(play, *args, world=world, fresh=True, group_timeout=20.0) as run:
        for rank in range(world):
            assert run.told(rank) == "ready"
        killed_ns = run.signal(world - 1, signal.SIGKILL)
        answers = run.finish(died={world - 1})
    for caught in answers[:-1]:
        assert caught.kind == "PeerFailure", caught
        assert caught.ranks == (world - 1,), caught
    return [(caught.raised_ns - killed_ns) / 1e9 for caught in answers[:-1]]


@pytest.mark.timeout(620)  # --long
@pytest.mark.parametrize(
    "op, moment", [*((op, "in it") for op in (*OPERATIONS, "split")), *((op, "running") for op in _WHILE_RUNNING)]
)
def test_a_killed_rank_is_named(ranks: Ranks, op: str, moment: str, long: bool, request: pytest.FixtureRequest) -> None:
    trials = 10 if long else 1
    seconds = [found for _ in range(trials) for found in _seconds_to_raise(ranks, op, moment)]
    request.config.stash[FIGURES].append(
        f"killed, {moment}: {op:15} median {1e3 * statistics.median(seconds):6.1f} ms, "
        f"worst {1e3 * max(seconds):6.1f} ms until the survivors raise ({len(seconds)} times)"
    )
    assert max(seconds) < _BOUND_S
