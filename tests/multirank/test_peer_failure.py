"""A rank's process dies in the middle of a large all_reduce: every survivor raises PeerFailure that names it, soon, and
so does every later operation. The time from the kill to each survivor's error is measured and shown.
"""

from __future__ import annotations

import contextlib
import random
import signal
import statistics
import time
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ._errors import Caught, needed
from ._harness import Ranks, context
from ._load import all_cores_busy
from ._tally import FIGURES

pytestmark = pytest.mark.nccl2_only("gloo tells the ring neighbours only; the others wait for their timeout")

_WORLD = 4
_MESSAGE_BYTES = 64 << 20
# Memory beside the message that a rank has touched: the kernel takes longer to bury a large process.
_BALLAST_BYTES = 256 << 20
_LIMIT_S = 1.0
_MEDIAN_LIMIT_MS = {"idle": 10.0, "busy": 100.0}


def check_until_a_peer_dies(rank: int, world: int) -> tuple[Caught, Caught]:
    ballast = torch.ones(_BALLAST_BYTES // 8, dtype=torch.float64)
    tensor = torch.ones(_MESSAGE_BYTES // 4)
    for _ in range(2):
        dist.all_reduce(tensor)

    def go_on() -> None:
        for number in range(10_000):
            if number == 1:
                context().tell("in the middle")
            dist.all_reduce(tensor)

    first = needed(go_on)
    later = needed(lambda: dist.all_reduce(torch.ones(1)))
    del ballast
    return first, later


@dataclass(frozen=True)
class Trial:
    victim: int
    milliseconds: list[float]  # from the kill to the error, of each survivor


def _kill_one(ranks: Ranks, dice: random.Random) -> Trial:
    victim = dice.randrange(_WORLD)
    with ranks.start(check_until_a_peer_dies, world=_WORLD, fresh=True, timeout=40.0) as run:
        for rank in range(_WORLD):
            assert run.told(rank) == "in the middle"
        _spin(dice.uniform(0.0, 0.05))  # to another phase of the operation in every trial
        killed_ns = run.signal(victim, signal.SIGKILL)
        answers = run.finish(died={victim})
    survivors: list[tuple[int, Any]] = [(rank, answer) for rank, answer in enumerate(answers) if rank != victim]
    for rank, (first, later) in survivors:
        assert first.kind == "PeerFailure", f"rank {rank}: {first}"
        assert first.ranks == (victim,), f"rank {rank}: {first}"
        assert f"rank {victim}" in first.text, f"rank {rank}: {first.text}"
        assert later.kind == "PeerFailure", f"rank {rank}, a later operation: {later}"
    return Trial(victim, [(first.raised_ns - killed_ns) / 1e6 for _, (first, _) in survivors])


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.parametrize("cores", ["idle", "busy"])
def test_survivors_of_a_kill_raise_soon(ranks: Ranks, cores: str, request: pytest.FixtureRequest) -> None:
    thorough = request.config.getoption("--long")
    dice = random.Random(request.config.getoption("--seed") or 1)
    count = 20 if thorough else 4
    load = all_cores_busy(ranks, 100.0) if cores == "busy" else contextlib.nullcontext()
    with load:
        trials = [_kill_one(ranks, dice) for _ in range(count)]
    times = [milliseconds for trial in trials for milliseconds in trial.milliseconds]
    median = statistics.median(times)
    request.config.stash[FIGURES].append(
        f"kill to PeerFailure, cores {cores}: median {median:.2f} ms, worst {max(times):.2f} ms of {len(times)}"
    )
    assert max(times) < _LIMIT_S * 1e3
    if thorough:  # on a machine that runs other things beside, the median is only reported
        assert median < _MEDIAN_LIMIT_MS[cores]


def check_connecting(rank: int, world: int, timeout: float) -> Caught:
    context().init(timeout=timeout)  # goes on in the background
    context().tell("connecting")
    return needed(lambda: [dist.all_reduce(torch.ones(1)) for _ in range(100_000)])


def test_a_rank_that_dies_while_the_group_connects_is_named(ranks: Ranks) -> None:
    """Killed at a random moment around the meeting of the ranks. Who was there and died is a PeerFailure, at once; who
    died before it had said hello can only be missed, when the timeout has passed.
    """
    dice = random.Random(5)
    world, timeout = 3, 2.0
    for _ in range(15):
        victim = dice.randrange(world)
        with ranks.start(check_connecting, timeout, world=world, init=False, fresh=True, timeout=30.0) as run:
            run.told(victim)
            _spin(dice.uniform(0.0, 0.003))
            killed_ns = run.signal(victim, signal.SIGKILL)
            answers = run.finish(died={victim})
        for rank, caught in enumerate(answers):
            if rank != victim:
                assert caught.ranks == (victim,), f"rank {rank}: {caught}"
                limit = {"PeerFailure": timeout / 2, "CollectiveTimeout": timeout + 1.0}[caught.kind]
                assert (caught.raised_ns - killed_ns) / 1e9 < limit, f"rank {rank}: {caught}"


def check_idle_until_a_peer_dies(rank: int, world: int) -> Caught:
    dist.all_reduce(torch.ones(1))
    context().tell("waiting")
    if rank == 1:
        context().await_death()
    return needed(lambda: dist.all_reduce(torch.ones(1)))


@pytest.mark.parametrize("world", [2, 4])
def test_a_rank_that_dies_between_operations_is_named(ranks: Ranks, world: int) -> None:
    with ranks.start(check_idle_until_a_peer_dies, world=world, fresh=True) as run:
        for rank in range(world):
            run.told(rank)
        run.signal(1, signal.SIGKILL)
        answers = run.finish(died={1})
    for rank, caught in enumerate(answers):
        if rank != 1:
            assert (caught.kind, caught.ranks) == ("PeerFailure", (1,)), f"rank {rank}: {caught}"


def check_async_until_a_peer_dies(rank: int, world: int) -> list[Caught]:
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        context().tell("waiting")
        context().await_death()
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(8)]
    context().tell("waiting")
    errors = [needed(work.wait) for work in works]
    assert all(work.is_completed() for work in works)
    assert all(work.exception() is not None and not work.is_success() for work in works)
    return errors


@pytest.mark.needs_torch("2.13", "Work.exception() in Python")
def test_operations_in_flight_fail_too(ranks: Ranks) -> None:
    with ranks.start(check_async_until_a_peer_dies, world=3, fresh=True) as run:
        for rank in range(3):
            run.told(rank)
        run.signal(1, signal.SIGKILL)
        answers = run.finish(died={1})
    for rank in (0, 2):
        for caught in answers[rank]:
            assert (caught.kind, caught.ranks) == ("PeerFailure", (1,)), f"rank {rank}: {caught}"
