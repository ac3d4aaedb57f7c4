"""Groups that go on without some of their ranks."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks, context


def _sum(group: Any = None, device: str = "cuda") -> float:
    tensor = torch.full((4,), float(dist.get_rank(group) + 1), device=device)
    dist.all_reduce(tensor, group=group)
    return float(tensor[3])


def _expected(size: int) -> float:
    return size * (size + 1) / 2


def _shrink(*ranks: int, **options: Any) -> dist.ProcessGroup:
    import pycomms

    return pycomms.shrink_group(ranks, **options)


def _check_all(group: Any, size: int) -> None:
    for device in ("cuda", "cpu"):
        assert _sum(group, device) == _expected(size)
    dist.barrier(group=group)
    everyone: list[Any] = [None] * size
    dist.all_gather_object(everyone, dist.get_rank(group), group=group)
    assert everyone == list(range(size))


def shrink_default(rank: int, world: int, abort: bool) -> None:
    from ._preload import nccl  # on a rank only

    _sum()
    other = dist.new_group(list(range(world)))
    _sum(other)
    torch.cuda.synchronize()
    if rank == 1:
        context().await_signpost("shrunk")
        return
    new = _shrink(1, abort=abort)
    assert nccl.calls("ncclCommShrink") == 1
    assert _get_default_group() is new
    assert (dist.get_rank(), dist.get_world_size()) == (rank - (rank > 1), world - 1)
    assert dist.get_process_group_ranks(new) == list(range(world - 1))
    _check_all(None, world - 1)
    part = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        _check_all(part, 2)
    _check_all(None, world - 1)
    context().signpost("shrunk")
    dist.barrier()
    dist.destroy_process_group()
    context().await_signpost("shrunk")


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("world", [3, 4])
def test_the_default_group(ranks: Ranks, world: int, abort: bool) -> None:
    ranks.run(shrink_default, abort, world=world, fresh=True)


def shrink_part(rank: int, world: int) -> None:
    """Ranks of the part are not those of the world."""
    part: Any = dist.new_group([1, 2, 3])
    if rank != 0:
        _sum(part)
    if rank in (1, 3):
        new = _shrink(1, group=part)
        assert dist.get_process_group_ranks(new) == [1, 3]
        assert dist.get_group_rank(new, 3) == 1
        assert dist.get_global_rank(new, 1) == 3
        _check_all(new, 2)
        newer = _shrink(0, group=new) if rank == 3 else None
        if newer is not None:
            assert dist.get_process_group_ranks(newer) == [3]
            _check_all(newer, 1)
    _check_all(None, world)


def test_a_part_of_the_world(ranks: Ranks) -> None:
    ranks.run(shrink_part, world=4, fresh=True)


def shrink_on_cpu(rank: int, world: int) -> None:
    from ._preload import nccl  # on a rank only

    _sum(None, "cpu")
    if rank != 0:
        _shrink(0)
        assert nccl.calls("ncclCommShrink") == 0  # nobody had a communicator on a GPU
        _check_all(None, world - 1)
    else:
        context().await_signpost("shrunk")
    context().signpost("shrunk")


def test_a_group_that_has_not_touched_a_gpu(ranks: Ranks) -> None:
    ranks.run(shrink_on_cpu, world=3, fresh=True)


def shrink_by_torch(rank: int, world: int) -> None:
    """torch's own function, which registers the new group for the GPU only."""
    context().init("bound", device_id=torch.device("cuda", 0))
    _sum()
    torch.cuda.synchronize()
    if rank != 1:
        new = dist.shrink_group([1])
        assert dist.get_world_size() == world - 1
        assert _sum(new) == _expected(world - 1)
        context().signpost("shrunk")
    context().await_signpost("shrunk")


def test_the_function_of_torch(ranks: Ranks) -> None:
    ranks.run(shrink_by_torch, world=3, init=False, fresh=True, group_timeout=5.0)


# --- what goes wrong


def refusals(rank: int, world: int) -> list[Caught]:
    _sum()
    backend: Any = _get_default_group()._get_backend(torch.device("cuda"))
    assert backend.supports_shrinking
    caught = [
        needed(lambda: _shrink()),
        needed(lambda: _shrink(world)),
        needed(lambda: _shrink((rank + 1) % world, (rank + 1) % world)),
        needed(lambda: _shrink(rank)),
        needed(lambda: backend.shrink([(rank + 1) % world], 7)),
    ]
    assert _sum() == _expected(world)
    return caught


def test_refusals(ranks: Ranks) -> None:
    for caught in ranks.run(refusals, world=3):
        assert [one.kind for one in caught] == ["ValueError"] * 5, caught


def shrink_without_a_member(rank: int, world: int) -> Caught | None:
    """Rank 2 is to stay and does not come."""
    _sum()
    caught = None
    if rank != 2:
        import pycomms

        caught = needed(lambda: _shrink(3, options=pycomms.Options(timeout=timedelta(seconds=1))))
    assert _sum() == _expected(world)  # nobody was harmed
    if rank != 3:  # and it can be tried again
        _shrink(3)
        _check_all(None, world - 1)
    return caught


def test_a_member_that_does_not_come_is_named(ranks: Ranks) -> None:
    first, second, _, _ = ranks.run(shrink_without_a_member, world=4, fresh=True)
    assert first.kind == "CollectiveTimeout", first
    assert 2 in first.ranks, first
    assert first.seconds() < 5.0
    assert second.kind == "CollectiveTimeout", second


def disagree(rank: int, world: int) -> Caught | None:
    _sum()
    caught = needed(lambda: _shrink(2 + rank % 2)) if rank < 2 else None
    assert _sum() == _expected(world)
    return caught


def test_members_that_disagree(ranks: Ranks) -> None:
    for caught in ranks.run(disagree, world=4, fresh=True, group_timeout=5.0)[:2]:
        assert caught.kind in ("CollectiveMismatch", "CollectiveTimeout"), caught


# --- a rank is killed


def go_on_after_a_death(rank: int, world: int, busy: bool) -> list[float]:
    """Trains with DDP, loses a rank, goes on with those that are left."""
    model = torch.nn.Linear(4, 4, device="cuda")
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    _train(model, 2)
    torch.cuda.synchronize()
    context().signpost(f"trained {rank}")
    for other in range(world):
        context().await_signpost(f"trained {other}")
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if busy:
        needed(_until_it_fails)
    _shrink(1, abort=True)
    _check_all(None, world - 1)
    _train(model, 2)
    return [float(parameter.sum()) for parameter in model.parameters()]


def _until_it_fails() -> None:
    while True:
        _sum()
        torch.cuda.synchronize()


def _train(model: torch.nn.Module, steps: int) -> None:
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        parallel(torch.full((2, 4), float(dist.get_rank() + step), device="cuda")).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("busy", [True, False])
def test_training_goes_on_after_a_death(ranks: Ranks, busy: bool) -> None:
    with ranks.start(go_on_after_a_death, busy, world=3, fresh=True, group_timeout=20.0) as run:
        first, _, last = run.finish(died={1})
    assert first == last
