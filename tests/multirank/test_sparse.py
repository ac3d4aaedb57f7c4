"""Sums of sparse tensors have a lane of their own, and one fate with their group: whichever fails first, both have,
on all ranks and with the same error.
"""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from ._errors import Caught, needed
from ._harness import Ranks, context

only_ours = pytest.mark.nccl2_only("a promise about our errors")

_SOON_S = 5.0  # and the groups' timeout is 30
_TIMEOUT_S = 3.0


def _check_words(text: str) -> None:
    """The story is the group's: nothing of the lane's own steps, and no headline in a headline."""
    assert "/sparse" not in text, text
    assert "all_gather" not in text, text
    assert text.count("of group") == 1, text
    assert text.count("cannot run") <= 1, text


def _sparse(rank: int, size: int) -> torch.Tensor:
    indices = torch.tensor([[0, rank + 1]])
    return torch.sparse_coo_tensor(indices, torch.tensor([1.0, rank + 1.0]), (size,), check_invariants=True)


def check_sum(rank: int, world: int) -> None:
    tensor = _sparse(rank, world + 2)
    dist.all_reduce(tensor)
    expected = torch.tensor([float(world), *(rank + 1.0 for rank in range(world)), 0.0])
    assert torch.equal(tensor.to_dense(), expected)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_the_sum(ranks: Ranks, world: int) -> None:
    ranks.run(check_sum, world=world)


def check_ends_at_once(rank: int, world: int, rounds: int) -> None:
    """The first rank that is through destroys its group while others are still at it."""
    for number in range(rounds):
        context().init(f"round {number}")
        tensors = [_sparse(rank, world + 2) for _ in range(3)]
        works: list[Any] = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        dist.all_reduce(_sparse(rank, world + 2))
        dist.destroy_process_group()
        assert all(work.is_success() for work in works)


def test_who_is_through_may_end_the_group(ranks: Ranks) -> None:
    ranks.run(check_ends_at_once, 20, world=3, init=False, timeout=60.0)


def _dense_then_sparse(rank: int, world: int) -> tuple[Caught, Caught]:
    return needed(lambda: dist.all_reduce(torch.ones(1))), needed(lambda: dist.all_reduce(_sparse(rank, world + 2)))


def check_shapes_differ(rank: int, world: int, is_async: bool) -> tuple[Caught, ...]:
    check_sum(rank, world)

    def call() -> None:
        work = dist.all_reduce(_sparse(rank, world + 2 + rank), async_op=is_async)
        if work is not None:
            work.wait()

    return needed(call), *_dense_then_sparse(rank, world)


@only_ours
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_mismatch_is_the_groups(ranks: Ranks, is_async: bool) -> None:
    for errors in ranks.run(check_shapes_differ, is_async, world=3, timeout=30.0):
        for caught in errors:
            assert (caught.kind, caught.op) == ("CollectiveMismatch", "all_reduce_sparse"), caught
            assert caught.ranks == (0, 1, 2), caught
            for rank in range(3):
                assert f"rank {rank} has float32[{5 + rank}] with 1 sparse dimension" in caught.text
            _check_words(caught.text)
            assert caught.seconds() < _SOON_S


def check_one_does_not_come(rank: int, world: int, missing: int, is_connected: bool) -> tuple[Caught, ...]:
    if is_connected:
        check_sum(rank, world)
    dist.barrier()
    if rank == missing:
        context().await_signpost("raised")
        return _dense_then_sparse(rank, world)
    caught = needed(lambda: dist.all_reduce(_sparse(rank, world + 2)))
    context().signpost("raised")
    return caught, *_dense_then_sparse(rank, world)


@only_ours
@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize("is_connected", [True, False])
def test_a_timeout_is_the_groups(ranks: Ranks, missing: int, is_connected: bool) -> None:
    answers = ranks.run(check_one_does_not_come, missing, is_connected, world=2, group_timeout=_TIMEOUT_S, timeout=30.0)
    for rank, errors in enumerate(answers):
        for caught in errors:
            assert (caught.kind, caught.ranks) == ("CollectiveTimeout", (missing,)), f"rank {rank}: {caught}"
            assert caught.op == "all_reduce_sparse", f"rank {rank}: {caught}"
            waited = re.search(rf"rank {missing} did not come within ([\d.]+) s", caught.text)
            assert waited is not None, f"rank {rank}: {caught}"
            assert float(waited[1]) >= _TIMEOUT_S - 0.01
            _check_words(caught.text)
            assert caught.seconds() < _TIMEOUT_S * 2  # once, and not for each of its two connections


def check_group_fails(rank: int, world: int, is_connected: bool) -> tuple[Caught, ...]:
    if is_connected:
        check_sum(rank, world)
    caught = needed(lambda: dist.all_reduce(torch.ones(10 + rank)))
    return caught, needed(lambda: dist.all_reduce(_sparse(rank, world + 2)))


@only_ours
@pytest.mark.parametrize("is_connected", [True, False])
def test_a_failure_of_the_group_is_the_lanes(ranks: Ranks, is_connected: bool) -> None:
    for errors in ranks.run(check_group_fails, is_connected, world=2, timeout=30.0):
        for caught in errors:
            assert caught.kind == "CollectiveMismatch", caught
            assert caught.seconds() < _SOON_S


def check_group_fails_meanwhile(rank: int, world: int, is_connected: bool) -> Caught | None:
    """Rank 0 waits in the lane, alone, when the others fail the group."""
    if is_connected:
        check_sum(rank, world)
    dist.barrier()
    if rank == 0:
        context().signpost("waiting")
        return needed(lambda: dist.all_reduce(_sparse(rank, world + 2)))
    context().await_signpost("waiting")
    if rank == 1:
        dist.send(torch.ones(2), 2, tag=3)
    else:
        needed(lambda: dist.recv(torch.ones(3), 1, tag=3))
    context().signpost(f"failed on {rank}")
    context().await_signpost(f"failed on {3 - rank}")
    return None


@only_ours
@pytest.mark.parametrize("is_connected", [True, False])
def test_whoever_waits_in_the_lane_hears_of_it(ranks: Ranks, is_connected: bool) -> None:
    with ranks.start(check_group_fails_meanwhile, is_connected, world=3, timeout=30.0) as run:
        caught = run.finish()[0]
    assert caught.kind == "CollectiveMismatch", caught
    assert caught.seconds() < _SOON_S


def check_a_rank_dies(rank: int, world: int, is_connected: bool) -> tuple[Caught, Caught]:
    if is_connected:
        check_sum(rank, world)
    dist.barrier()
    context().tell("ready")
    if rank == 1:
        context().await_death()
    return (
        needed(lambda: dist.all_reduce(_sparse(rank, world + 2))),
        needed(lambda: dist.all_reduce(torch.ones(1))),
    )


@only_ours
@pytest.mark.parametrize("is_connected", [True, False])
def test_a_death_is_noticed_in_the_lane(ranks: Ranks, is_connected: bool) -> None:
    with ranks.start(check_a_rank_dies, is_connected, world=3, fresh=True, timeout=30.0) as run:
        for rank in range(3):
            run.told(rank)
        run.signal(1, signal.SIGKILL)
        answers = run.finish(died={1})
    for rank in (0, 2):
        for caught in answers[rank]:
            assert (caught.kind, caught.ranks) == ("PeerFailure", (1,)), f"rank {rank}: {caught}"
            _check_words(caught.text)
            assert caught.seconds() < _SOON_S


def check_after_destroy(rank: int, world: int) -> Caught:
    group: Any = _get_default_group()
    dist.destroy_process_group()
    return needed(lambda: group.allreduce([_sparse(rank, world + 2)]).wait())


@only_ours
def test_a_destroyed_group_says_so(ranks: Ranks) -> None:
    for caught in ranks.run(check_after_destroy, world=2):
        assert caught.kind == "CommunicatorClosed", caught
        assert caught.seconds() < _SOON_S
