"""Groups beside groups: made, split, used from several threads, as a mesh, and in the debug mode that wraps them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _get_default_group

from ._harness import Ranks, context, register_backend


def _sum_over(group: dist.ProcessGroup | None, value: float) -> float:
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, group=group)
    return float(tensor)


def check_new_groups(rank: int, world: int) -> None:
    for members in ([0], [world - 1, 0], list(range(0, world, 2)), list(range(world))):
        members = sorted(set(members))
        group = dist.new_group(members)
        if isinstance(group, dist.ProcessGroup):
            assert _sum_over(group, rank) == sum(members)
            assert dist.get_process_group_ranks(group) == members
            assert dist.get_rank(group) == members.index(rank)
            root = members[-1]
            tensor = torch.tensor([rank])
            dist.broadcast(tensor, root, group=group)
            assert int(tensor) == root
    assert _sum_over(None, 1) == world


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_new_groups(ranks: Ranks, world: int) -> None:
    ranks.run(check_new_groups, world=world)


def check_split_group(rank: int, world: int) -> None:
    parent: Any = _get_default_group()
    mine = list(range(0, world, 2)) if rank % 2 == 0 else list(range(1, world, 2))
    child = parent.split_group(mine, timedelta(seconds=20), group_name=f"half {rank % 2}")
    assert child is not None
    tensor = torch.tensor([float(rank)])
    child.allreduce([tensor]).wait()
    assert tensor[0] == sum(mine)
    assert (child.rank(), child.size()) == (mine.index(rank), len(mine))
    assert _sum_over(None, 1) == world
    child.shutdown()
    assert _sum_over(None, 1) == world


@pytest.mark.nccl2_only("gloo does not split")
@pytest.mark.parametrize("world", [2, 4, 5])
def test_split_group(ranks: Ranks, world: int) -> None:
    ranks.run(check_split_group, world=world)


def check_groups_in_threads(rank: int, world: int, rounds: int) -> None:
    """Each thread has a group of its own and goes at its own pace."""
    groups = [dist.new_group(list(range(world))) for _ in range(4)]
    start = threading.Barrier(len(groups))

    def use(index: int) -> None:
        group = groups[index]
        assert isinstance(group, dist.ProcessGroup)
        start.wait(20.0)
        for number in range(rounds):
            tensor = torch.full((1 + 997 * index * (number % 3),), float(rank + number))
            dist.all_reduce(tensor, group=group)
            assert torch.equal(tensor, torch.full_like(tensor, float(world * (world - 1) // 2 + world * number)))

    with ThreadPoolExecutor(len(groups)) as threads:
        for future in [threads.submit(use, index) for index in range(len(groups))]:
            future.result(60.0)


@pytest.mark.parametrize("world", [2, 3])
def test_threads_with_groups_of_their_own_are_independent(ranks: Ranks, world: int) -> None:
    ranks.run(check_groups_in_threads, 100, world=world)


def check_interleaved_groups(rank: int, world: int) -> None:
    """Two groups whose operations are issued in different orders on different ranks: legal, they are independent."""
    first, second = dist.new_group(), dist.new_group()
    assert isinstance(first, dist.ProcessGroup)
    assert isinstance(second, dist.ProcessGroup)
    a, b = torch.ones(1000), torch.ones(200_000)
    order = [(a, first), (b, second)] if rank % 2 == 0 else [(b, second), (a, first)]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor, group in order]
    for work in works:
        assert work is not None
        work.wait()
    assert a[0] == world
    assert b[-1] == world


@pytest.mark.parametrize("world", [2, 4])
def test_groups_are_independent(ranks: Ranks, world: int) -> None:
    ranks.run(check_interleaved_groups, world=world)


def check_mesh(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("replicate", "shard"))
    row, column = divmod(rank, world // 2)
    assert _sum_over(mesh.get_group("shard"), rank) == sum(range(row * (world // 2), (row + 1) * (world // 2)))
    assert _sum_over(mesh.get_group("replicate"), rank) == column + column + world // 2
    assert tuple(mesh.get_coordinate() or ()) == (row, column)
    flat = mesh["replicate", "shard"]._flatten("all")
    assert _sum_over(flat.get_group(), 1) == world


@pytest.mark.parametrize("world", [2, 4])
def test_device_mesh(ranks: Ranks, world: int) -> None:
    ranks.run(check_mesh, world=world)


def check_everything_small(rank: int, world: int) -> None:
    assert _sum_over(None, 1) == world
    dist.barrier()
    tensor = torch.tensor([rank])
    dist.broadcast(tensor, 0)
    assert int(tensor) == 0
    out = [torch.empty(2) for _ in range(world)]
    dist.all_gather(out, torch.full((2,), float(rank)))
    assert [float(part[0]) for part in out] == list(range(world))
    group = dist.new_group(list(range(world)))
    assert isinstance(group, dist.ProcessGroup)
    assert _sum_over(group, 2) == 2 * world
    pair = torch.empty(3)
    work = dist.irecv(pair, (rank - 1) % world)
    dist.send(torch.full((3,), float(rank)), (rank + 1) % world)
    assert work is not None
    work.wait()
    assert float(pair[0]) == (rank - 1) % world


@pytest.mark.parametrize("level", ["INFO", "DETAIL"])
@pytest.mark.parametrize("world", [2, 3])
def test_debug_levels(ranks: Ranks, world: int, level: str) -> None:
    ranks.run(check_everything_small, world=world, env={"TORCH_DISTRIBUTED_DEBUG": level})


def check_by_name(rank: int, world: int, name: str) -> str:
    dist.init_process_group(name, store=context().store("by name"), rank=rank, world_size=world)
    assert _sum_over(None, 1) == world
    return str(dist.get_backend())


@pytest.mark.needs_torch("2.14", "backends found by their entry point")
@pytest.mark.nccl2_only("about our names")
def test_the_entry_point_needs_no_import(ranks: Ranks) -> None:
    assert ranks.run(check_by_name, "pycomms", world=2, init=False, fresh=True) == ["pycomms", "pycomms"]


def check_beside_gloo(rank: int, world: int) -> None:
    gloo = dist.new_group(backend="gloo")
    assert isinstance(gloo, dist.ProcessGroup)
    assert _sum_over(gloo, 1) == world
    assert _sum_over(None, 1) == world


def test_another_backend_beside_ours(ranks: Ranks) -> None:
    ranks.run(check_beside_gloo, world=2)


def check_merge(rank: int, world: int) -> None:
    """Two groups that have no other in common become one, beside them."""
    register_backend()
    half = world // 2
    mine = "first" if rank < half else "second"
    dist.init_process_group("nccl2", store=context().store(mine), rank=rank % half, world_size=half)
    both = _get_default_group().merge_remote_group(context().store("both"), world, timedelta(seconds=20))
    assert both.size() == world
    tensor = torch.tensor([8 ** both.rank()])
    both.allreduce([tensor]).wait()
    assert int(tensor) == sum(8**one for one in range(world))
    alone = torch.ones(1)
    dist.all_reduce(alone)
    assert float(alone) == half


@pytest.mark.nccl2_only("the first group of gloo waits for the second one's ranks")
@pytest.mark.parametrize("world", [2, 4])
def test_two_groups_merge(ranks: Ranks, world: int) -> None:
    ranks.run(check_merge, world=world, init=False, fresh=True)
