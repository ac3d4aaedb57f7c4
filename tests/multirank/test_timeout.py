"""Deadlines: an operation that not everybody joins ends with an error that names who is missing; a waiter's own timeout
ends that wait and nothing else.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ._errors import Caught, needed
from ._harness import Ranks, context

_TIMEOUT_S = 1.0
_SLACK_S = 1.0  # a loaded machine

only_ours = pytest.mark.nccl2_only("gloo's timeouts do not say who is missing")


def check_one_does_not_come(rank: int, world: int, missing: int, op: str, is_async: bool) -> Caught | None:
    dist.all_reduce(torch.ones(1))
    if rank == missing:
        for other in range(world):
            if other != missing:
                context().await_signpost(f"raised on {other}")
        return needed(lambda: dist.all_reduce(torch.ones(1)))

    def issue() -> None:
        work = _issue(op, world, is_async)
        if work is not None:
            work.wait()

    caught = needed(issue)
    context().signpost(f"raised on {rank}")
    return caught


def _issue(op: str, world: int, is_async: bool) -> Any:
    if op == "all_reduce":
        return dist.all_reduce(torch.ones(100), async_op=is_async)
    if op == "all_reduce, large":
        return dist.all_reduce(torch.ones(4 << 20), async_op=is_async)
    if op == "barrier":
        return dist.barrier(async_op=is_async)
    return dist.all_gather_into_tensor(torch.ones(10 * world), torch.ones(10), async_op=is_async)


@only_ours
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("op", ["all_reduce", "all_reduce, large", "barrier", "all_gather"])
def test_the_missing_rank_is_named(ranks: Ranks, op: str, is_async: bool) -> None:
    world, missing = 3, 1
    answers = ranks.run(check_one_does_not_come, missing, op, is_async, world=world, group_timeout=_TIMEOUT_S)
    for rank, caught in enumerate(answers):
        assert caught.kind == "CollectiveTimeout", f"rank {rank}: {caught}"
        assert caught.ranks == (missing,), f"rank {rank}: {caught}"
        assert f"rank {missing}" in caught.text, f"rank {rank}: {caught.text}"
        assert op.split(",")[0] in caught.text, f"rank {rank}: {caught.text}"
        if rank != missing:
            assert _TIMEOUT_S * 0.9 <= caught.seconds() <= _TIMEOUT_S + _SLACK_S, f"rank {rank}: {caught}"


def check_a_late_rank(rank: int, world: int, late_after_ms: int) -> Caught:
    """Rank 1 comes when the others have given up: they are alive, and it is not told otherwise."""

    def connect(timeout: float) -> None:
        context().init(timeout=timeout)
        dist.all_reduce(torch.ones(1))

    if rank == 1:
        for other in range(world):
            if other != 1:
                context().await_signpost(f"raised on {other}")
        return needed(lambda: connect(20.0))
    caught = needed(lambda: connect(late_after_ms / 1e3))
    context().signpost(f"raised on {rank}")
    context().await_signpost("told")
    return caught


def check_a_late_rank_is_told(rank: int, world: int, late_after_ms: int) -> Caught:
    caught = check_a_late_rank(rank, world, late_after_ms) if rank != 1 else None
    if caught is None:
        caught = check_a_late_rank(rank, world, late_after_ms)
        context().signpost("told")
    return caught


@only_ours
@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("late_after_ms", [1, 200])
def test_a_rank_that_comes_too_late_to_connect_hears_so(ranks: Ranks, world: int, late_after_ms: int) -> None:
    answers = ranks.run(check_a_late_rank_is_told, late_after_ms, world=world, init=False, fresh=True)
    for rank, caught in enumerate(answers):
        assert caught.kind == "CollectiveTimeout", f"rank {rank}: {caught}"
        assert caught.ranks, f"rank {rank}: {caught}"
    assert 1 in answers[1].ranks, answers[1]
    assert answers[1].seconds() < 5.0
    if late_after_ms >= 200:  # time enough for the others to meet
        assert all(caught.ranks == (1,) for caught in answers), answers


def check_nobody_makes_the_group(rank: int, world: int) -> Caught | None:
    return needed(lambda: context().init(timeout=0.3)) if rank == 1 else None


@only_ours
def test_a_first_rank_that_does_not_come_is_named_in_one_line(ranks: Ranks) -> None:
    caught = ranks.run(check_nobody_makes_the_group, world=2, init=False, fresh=True)[1]
    assert (caught.kind, caught.ranks) == ("CollectiveTimeout", (0,)), caught
    assert "\n" not in caught.text.strip(), caught.text
    assert "frame #" not in caught.text, caught.text


def check_a_waiter_gives_up(rank: int, world: int) -> Caught | None:
    tensor = torch.full((1000,), float(rank + 1))
    caught = None
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        given_up = work
        caught = needed(lambda: given_up.wait(timedelta(milliseconds=100)))
        assert not work.is_completed()
        context().signpost("gave up")
        work.wait()
    else:
        context().await_signpost("gave up")
        dist.all_reduce(tensor)
    assert torch.equal(tensor, torch.full((1000,), float(world * (world + 1) // 2)))
    dist.all_reduce(tensor)
    return caught


@only_ours
@pytest.mark.parametrize("world", [2, 4])
def test_a_waiters_timeout_harms_nobody(ranks: Ranks, world: int) -> None:
    caught = ranks.run(check_a_waiter_gives_up, world=world)[0]
    assert caught.kind == "CollectiveTimeout", caught
    assert 0.09 <= caught.seconds() <= 0.1 + _SLACK_S


def check_monitored_barrier(rank: int, world: int, missing: tuple[int, ...]) -> Caught | None:
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    if rank in missing:
        context().await_signpost("raised")
        return None
    caught = needed(lambda: dist.monitored_barrier(timeout=timedelta(seconds=_TIMEOUT_S), wait_all_ranks=True))
    if rank == 0:
        context().signpost("raised")
    return caught


@pytest.mark.needs_torch("2.14", "monitored_barrier of others than gloo")
@pytest.mark.parametrize("missing", [(1,), (1, 3), (2, 3)])
def test_monitored_barrier_names_the_ranks_that_did_not_come(ranks: Ranks, missing: tuple[int, ...]) -> None:
    answers = ranks.run(check_monitored_barrier, missing, world=4, timeout=60.0)
    text = answers[0].text
    named = text[text.lower().find("rank") :]
    for rank in missing:
        assert str(rank) in named, text
    assert answers[0].seconds() <= len(missing) * _TIMEOUT_S + _SLACK_S


def check_group_survives_monitored_barrier(rank: int, world: int) -> None:
    if rank != 1:
        needed(lambda: dist.monitored_barrier(timeout=timedelta(milliseconds=200)))
        context().signpost(f"raised on {rank}")
    else:
        for other in range(world):
            if other != 1:
                context().await_signpost(f"raised on {other}")
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert tensor[0] == world


@pytest.mark.needs_torch("2.14", "monitored_barrier of others than gloo")
@only_ours
def test_the_group_works_after_a_failed_monitored_barrier(ranks: Ranks) -> None:
    ranks.run(check_group_survives_monitored_barrier, world=3)
