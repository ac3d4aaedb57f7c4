"""register_segments: all of torch's memory on the GPU is registered with NCCL as it comes, and dropped when it goes."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.multirank._harness import Ranks, context

from ._memory import (
    BIG,
    Registered,
    backend,
    collect,
    eventually,
    nccl,
    nccl_pool,
    registered,
    sum_in_place_works,
    sum_works,
    tensor_in,
)


def _segments() -> int:
    return len(torch.cuda.memory_snapshot(include_traces=False))


def _following() -> Any:
    import pycomms

    return pycomms.Options(register_segments=True)


def follow(rank: int, world: int, from_environment: bool) -> None:
    """Registered after each operation is exactly what torch's allocator has."""
    if from_environment:
        os.environ["TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK"] = "1"
        context().init()
    else:
        context().init(pg_options=_following())
    before: Any = torch.ones(BIG, dtype=torch.uint8, device="cuda")
    sum_works(rank, world)
    assert registered() == Registered(_segments(), 0)
    assert registered().buffers >= 2

    held = [torch.empty(BIG, dtype=torch.uint8, device="cuda") for _ in range(3)]
    sum_works(rank, world)
    assert registered() == Registered(_segments(), 0)
    sum_in_place_works(held[1], world)

    present = registered().buffers
    del held[0], before
    collect()
    sum_works(rank, world)
    assert registered() == Registered(present - 2, 0) == Registered(_segments(), 0)

    # Gone and come again between two operations, at the same address if the allocator of the device likes.
    registrations = nccl().calls("ncclCommRegister")
    del held[0]
    collect()
    held.append(torch.empty(BIG, dtype=torch.uint8, device="cuda"))
    sum_works(rank, world)
    assert registered() == Registered(_segments(), 0)
    assert nccl().calls("ncclCommRegister") > registrations
    sum_in_place_works(held[-1], world)

    work: Any = dist.all_reduce(held[0], async_op=True)
    work.wait()
    dist.destroy_process_group()
    assert registered() == Registered(0, 0)
    assert nccl().calls("ncclCommDeregister") == nccl().calls("ncclCommRegister")


@pytest.mark.parametrize("from_environment", [False, True])
@pytest.mark.parametrize("world", [1, 2, 4])
def test_what_torch_has_is_registered(ranks: Ranks, world: int, from_environment: bool) -> None:
    ranks.run(follow, from_environment, world=world, init=False, fresh=True)


def off(rank: int, world: int) -> None:
    """Beside a group that follows, one that does not."""
    plain: Any = dist.new_group(list(range(world)))
    sum_works(rank, world)
    assert nccl().calls("ncclCommRegister") == 0
    following: Any = dist.new_group(list(range(world)), pg_options=_following())
    sum_works(rank, world, following)
    assert registered() == Registered(_segments(), 0)
    before = registered()
    held = torch.ones(BIG, dtype=torch.uint8, device="cuda")
    for group in (plain, None):
        sum_in_place_works(held, world, group)
    assert registered() == before
    sum_works(rank, world, following)
    assert registered() == Registered(_segments(), 0)


def test_others_are_left_alone(ranks: Ranks) -> None:
    ranks.run(off, world=2, fresh=True)


def children(rank: int, world: int) -> None:
    """A group that is split off has a communicator of its own, and the option."""
    context().init(pg_options=_following(), device_id=torch.device("cuda", 0))
    sum_works(rank, world)
    half: Any = dist.new_group(list(range(world)), pg_options=_following())
    for group in (half, None, half):
        sum_works(rank, world, group)
    assert registered() == Registered(2 * _segments(), 0)
    sum_works(rank, world)  # all have looked
    backend(half).abort()
    eventually(lambda: registered() == Registered(_segments(), 0))
    sum_works(rank, world)


@pytest.mark.parametrize("world", [2, 4])
def test_groups_that_are_split(ranks: Ranks, world: int) -> None:
    ranks.run(children, world=world, init=False, fresh=True)


def with_pools(rank: int, world: int) -> None:
    """A pool that is registered besides: deregistering it leaves what the option wants."""
    context().init(pg_options=_following())
    sum_works(rank, world)
    pool = nccl_pool()
    tensor = tensor_in(pool)
    sum_in_place_works(tensor, world)
    sum_works(rank, world)
    assert registered() == Registered(_segments(), 0)
    backend().register_mem_pool(pool, symm=True)
    assert registered() == Registered(_segments(), 1)
    backend().deregister_mem_pool(pool)
    sum_works(rank, world)
    assert registered() == Registered(_segments(), 0)
    sum_in_place_works(tensor, world)
    del tensor, pool
    collect()
    sum_works(rank, world)
    assert registered() == Registered(_segments(), 0)
    assert nccl().calls("ncclMemFree") == 1


def test_pools_of_a_group_that_follows(ranks: Ranks) -> None:
    ranks.run(with_pools, world=2, init=False, fresh=True)


def captured(rank: int, world: int) -> None:
    """Memory comes and goes before and in a capture."""
    context().init(pg_options=_following())
    gone = torch.ones(BIG, dtype=torch.uint8, device="cuda")
    sum_works(rank, world)
    del gone
    collect()
    tensor = torch.full((8,), 1.0, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        inside = tensor * 2
        dist.all_reduce(inside)
        large = torch.zeros(BIG, dtype=torch.uint8, device="cuda")
        dist.all_reduce(large)
    for round_number in range(1, 3):
        tensor.fill_(float(round_number))
        graph.replay()
        torch.cuda.synchronize()
        assert inside.tolist() == [2.0 * round_number * world] * 8
    sum_works(rank, world)
    assert registered() == Registered(_segments(), 0)
    del inside, large, graph
    collect()
    sum_works(rank, world)
    assert registered() == Registered(_segments(), 0)


@pytest.mark.parametrize("world", [1, 2])
def test_capture(ranks: Ranks, world: int) -> None:
    ranks.run(captured, world=world, init=False, fresh=True)


def in_blocks(rank: int, world: int) -> None:
    context().init(pg_options=_following())
    sum_works(rank, world)
    first = torch.ones(BIG, dtype=torch.uint8, device="cuda")
    manager: Any = dist.distributed_c10d._coalescing_manager
    with manager(device=torch.device("cuda"), async_ops=True) as block:
        dist.all_reduce(first)
        second = torch.ones(BIG, dtype=torch.uint8, device="cuda")
        dist.all_reduce(second)
    block.wait()
    assert registered() == Registered(_segments(), 0)
    assert bool((first == world).all())
    assert bool((second == world).all())


def test_coalesced_blocks(ranks: Ranks) -> None:
    ranks.run(in_blocks, world=2, init=False, fresh=True)


def expandable(rank: int, world: int) -> None:
    context().init(pg_options=_following())
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    tensor: Any = torch.ones(4)
    dist.all_reduce(tensor)  # CPU tensors have nothing to do with it
    torch.cuda.memory._set_allocator_settings("expandable_segments:False")
    on_gpu = torch.ones(4, device="cuda")
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    with pytest.raises(ValueError, match=r"register_segments: .*expandable_segments"):
        dist.all_reduce(on_gpu)
    torch.cuda.memory._set_allocator_settings("expandable_segments:False")
    sum_works(rank, world)
    assert registered() == Registered(_segments(), 0)


def test_expandable_segments_are_refused(ranks: Ranks) -> None:
    ranks.run(expandable, world=2, init=False, fresh=True)
