"""register_mem_pool: what is registered with NCCL, what becomes of memory that is freed, and how groups end."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks, context

from ._memory import (
    MIB,
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


def register(rank: int, world: int, symm: bool) -> None:
    def expect(segments: int) -> None:
        assert registered() == (Registered(0, segments) if symm else Registered(segments, 0))

    pool = nccl_pool()
    first = tensor_in(pool)
    assert nccl().calls("ncclMemAlloc") == 1
    backend().register_mem_pool(pool, symm=symm)
    expect(1)
    sum_in_place_works(first, world)

    # What is made later is not registered by itself, and can be used all the same.
    second = tensor_in(pool)
    sum_in_place_works(second, world)
    expect(1)
    backend().register_mem_pool(pool, symm=symm)
    expect(2)
    backend().register_mem_pool(pool, symm=symm)
    expect(2)
    sum_in_place_works(second, world)

    backend().deregister_mem_pool(pool)
    expect(0)
    sum_in_place_works(first, world)
    with pytest.raises(ValueError, match=r"deregister_mem_pool.*not registered"):
        backend().deregister_mem_pool(pool)


@pytest.mark.parametrize("symm", [False, True])
@pytest.mark.parametrize("world", [1, 2, 4])
def test_segments_are_registered(ranks: Ranks, world: int, symm: bool) -> None:
    ranks.run(register, symm, world=world, fresh=True)


def torchs_pool(rank: int, world: int) -> None:
    """A pool whose memory torch frees with cudaFree, at once."""
    pool: Any = torch.cuda.MemPool()
    tensor = tensor_in(pool)
    backend().register_mem_pool(pool)
    sum_in_place_works(tensor, world)
    assert registered() == Registered(1, 0)
    del tensor, pool
    collect()
    sum_works(rank, world)
    assert registered() == Registered(0, 0)

    # The same address, perhaps, and another segment.
    pool = torch.cuda.MemPool()
    tensor = tensor_in(pool)
    backend().register_mem_pool(pool)
    sum_in_place_works(tensor, world)
    assert registered() == Registered(1, 0)
    assert nccl().calls("ncclCommRegister") == 2
    backend().deregister_mem_pool(pool)


@pytest.mark.parametrize("world", [1, 2])
def test_memory_of_torch(ranks: Ranks, world: int) -> None:
    ranks.run(torchs_pool, world=world, fresh=True)


def upgrade(rank: int, world: int) -> None:
    pool = nccl_pool()
    tensor = tensor_in(pool)
    backend().register_mem_pool(pool)
    backend().register_mem_pool(pool, symm=True)
    assert registered() == Registered(1, 1)
    with pytest.raises(ValueError, match="symm=True; deregister it first"):
        backend().register_mem_pool(pool)
    sum_in_place_works(tensor, world)
    backend().deregister_mem_pool(pool)
    assert registered() == Registered(0, 0)


def test_local_becomes_symmetric(ranks: Ranks) -> None:
    ranks.run(upgrade, world=2, fresh=True)


# --- memory that is freed


def freed(rank: int, world: int) -> None:
    pool = nccl_pool()
    tensor = tensor_in(pool)
    backend().register_mem_pool(pool)
    sum_in_place_works(tensor, world)
    del tensor, pool
    collect()
    # It is registered still, so its memory is not given to anybody.
    assert registered() == Registered(1, 0)
    assert nccl().calls("ncclMemFree") == 0
    sum_works(rank, world)
    assert registered() == Registered(0, 0)
    assert nccl().calls("ncclMemFree") == 1


@pytest.mark.parametrize("world", [1, 2, 4])
def test_freed_memory_is_deregistered_before_the_next_operation(ranks: Ranks, world: int) -> None:
    ranks.run(freed, world=world, fresh=True)


def freed_windows(rank: int, world: int) -> None:
    """A window is taken down by all ranks together: until they do, its memory stays, whoever has freed it."""
    group: Any = dist.new_group(list(range(world)))
    pool = nccl_pool(group)
    tensor = tensor_in(pool)
    backend(group).register_mem_pool(pool, symm=True)
    sum_in_place_works(tensor, world, group)
    if rank == 0:
        del tensor, pool
        collect()
    for _ in range(3):
        sum_works(rank, world, group)
    assert registered() == Registered(0, 1)
    assert nccl().calls("ncclMemFree") == 0
    dist.destroy_process_group(group)
    assert registered() == Registered(0, 0)
    assert nccl().calls("ncclMemFree") == (1 if rank == 0 else 0)


def test_freed_windows_wait_for_all_ranks(ranks: Ranks) -> None:
    ranks.run(freed_windows, world=2, fresh=True)


def freed_while_in_use(rank: int, world: int) -> None:
    """Operations that used the memory are still queued when it is freed and when it is deregistered."""
    from ._preload import emulator  # on a rank only

    pool = nccl_pool()
    tensor = tensor_in(pool, 4 * MIB)
    backend().register_mem_pool(pool)
    sum_works(rank, world)
    with emulator.delays(_slow()):
        works = [dist.all_reduce(tensor, async_op=True) for _ in range(20)]
        backend().deregister_mem_pool(pool)
        assert all(work.is_completed() for work in works if work is not None)
    assert registered() == Registered(0, 0)
    torch.cuda.synchronize()


def _slow() -> Any:
    from ._delays import DELAYS

    return DELAYS["300us"]


def test_deregistering_waits_for_operations(ranks: Ranks) -> None:
    ranks.run(freed_while_in_use, world=2, fresh=True)


def two_groups(rank: int, world: int) -> None:
    """Memory that two groups have registered goes when the second has dropped it."""
    other: Any = dist.new_group(list(range(world)))
    pool = nccl_pool()
    tensor = tensor_in(pool)
    for group in (None, other):
        backend(group).register_mem_pool(pool)
        sum_in_place_works(tensor, world, group)
    assert registered() == Registered(2, 0)
    del tensor, pool
    collect()
    sum_works(rank, world)
    assert (registered(), nccl().calls("ncclMemFree")) == (Registered(1, 0), 0)
    sum_works(rank, world, other)
    assert (registered(), nccl().calls("ncclMemFree")) == (Registered(0, 0), 1)


def test_two_groups_hold_memory(ranks: Ranks) -> None:
    ranks.run(two_groups, world=2, fresh=True)


# --- the end of a group


def end(rank: int, world: int, symm: bool, how: str) -> None:
    group: Any = dist.new_group(list(range(world)))
    pool = nccl_pool(group)
    tensor = tensor_in(pool)
    backend(group).register_mem_pool(pool, symm=symm)
    sum_in_place_works(tensor, world, group)
    mine = backend(group)
    if how == "free":  # before the group ends
        del tensor, pool
        collect()
    if how == "abort":
        mine.abort()
        mine.deregister_mem_pool(pool)  # went with the communicator
    else:
        dist.destroy_process_group(group)
    eventually(lambda: registered() == Registered(0, 0))
    undone = nccl().calls("ncclCommWindowDeregister" if symm else "ncclCommDeregister")
    assert undone == (0 if how == "abort" else 1)
    assert nccl().calls("ncclMemFree") == (1 if how == "free" else 0)
    if how != "free":
        del tensor, pool
        collect()
        eventually(lambda: nccl().calls("ncclMemFree") == 1)
    sum_works(rank, world)


@pytest.mark.parametrize("how", ["destroy", "free", "abort"])
@pytest.mark.parametrize("symm", [False, True])
@pytest.mark.parametrize("world", [1, 2, 4])
def test_the_end_of_a_group(ranks: Ranks, world: int, symm: bool, how: str) -> None:
    ranks.run(end, symm, how, world=world, fresh=True)


def member_dies(rank: int, world: int, symm: bool) -> Caught | None:
    pool = nccl_pool()
    tensor = tensor_in(pool)
    backend().register_mem_pool(pool, symm=symm)
    sum_in_place_works(tensor, world)
    if rank == world - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    second = tensor_in(pool)

    def until_noticed() -> None:
        for _ in range(200):
            backend().register_mem_pool(pool, symm=symm)
            dist.all_reduce(second)
            torch.cuda.synchronize()

    caught = needed(until_noticed)
    backend().deregister_mem_pool(pool)
    del tensor
    collect()
    dist.destroy_process_group()
    eventually(lambda: registered() == Registered(0, 0))
    return caught


@pytest.mark.parametrize("symm", [False, True])
def test_a_member_dies(ranks: Ranks, symm: bool) -> None:
    with ranks.start(member_dies, symm, world=3, fresh=True) as run:
        for caught in run.finish(died={2})[:2]:
            assert caught.kind == "PeerFailure", caught


# --- what is refused


def refused(rank: int, world: int) -> None:
    mine: Any = backend()
    with pytest.raises(TypeError, match=r"register_mem_pool: pool must be a torch.cuda.MemPool, not int"):
        mine.register_mem_pool(5)
    empty = nccl_pool()
    for symm in (False, True):
        with pytest.raises(ValueError, match=r"register_mem_pool: .*no memory yet"):
            mine.register_mem_pool(empty, symm=symm)
    torchs: Any = torch.cuda.MemPool()
    tensor = tensor_in(torchs)
    with pytest.raises(ValueError, match=r"MemPool\(backend.mem_allocator\)"):
        mine.register_mem_pool(torchs, symm=True)
    mine._start_coalescing()
    with pytest.raises(ValueError, match="coalesced block"):
        mine.register_mem_pool(torchs)
    mine._end_coalescing()
    assert registered() == Registered(0, 0)
    sum_in_place_works(tensor, world)


@pytest.mark.parametrize("world", [1, 2])
def test_refusals(ranks: Ranks, world: int) -> None:
    ranks.run(refused, world=world, fresh=True)


def disagree(rank: int, world: int) -> Caught:
    """Each way in which ranks can come with different memory: an error on all of them, and the group goes on."""
    pool = nccl_pool()
    tensors = [tensor_in(pool)]
    if rank == world - 1:
        tensors.append(tensor_in(pool))
    caught = needed(lambda: backend().register_mem_pool(pool, symm=True))
    sum_in_place_works(tensors[0], world)
    mine: Any = torch.cuda.MemPool() if rank == 0 else pool  # rank 0's cannot be symmetric
    tensors.append(tensor_in(mine))
    other = needed(lambda: backend().register_mem_pool(mine, symm=True))
    assert ("backend.mem_allocator" if rank == 0 else "rank 0 refused it") in other.text
    assert registered() == Registered(0, 0)
    sum_in_place_works(tensors[0], world)
    return caught


@pytest.mark.parametrize("world", [2, 4])
def test_ranks_that_disagree(ranks: Ranks, world: int) -> None:
    for caught in ranks.run(disagree, world=world, fresh=True):
        assert caught.kind == "ValueError"
        assert "all ranks must have memory of the same sizes" in caught.text


def on_another_gpu(rank: int, world: int) -> None:
    context().init("bound", device_id=torch.device("cuda", 0))
    pool = nccl_pool()
    with torch.cuda.device(1):
        elsewhere = tensor_in(pool)
    assert elsewhere.device.index == 1
    with pytest.raises(ValueError, match="cuda:1"):
        backend().register_mem_pool(pool)
    sum_works(rank, world)


def test_memory_of_another_gpu(ranks: Ranks) -> None:
    ranks.run(on_another_gpu, world=2, init=False, fresh=True)


def nobody_comes(rank: int, world: int) -> None:
    """Ranks that do not come are waited for until the group's deadline, not longer."""
    context().init(timeout=3.0)
    pool = nccl_pool()
    tensor = tensor_in(pool)
    sum_in_place_works(tensor, world)
    if rank == 0:
        caught = needed(lambda: backend().register_mem_pool(pool, symm=True))
        assert caught.kind == "CollectiveTimeout"
        assert caught.seconds() < 10
        context().signpost("raised")
    else:
        context().await_signpost("raised")


def test_a_rank_that_does_not_come(ranks: Ranks) -> None:
    ranks.run(nobody_comes, world=2, init=False, fresh=True)
