"""Groups with GPU tensors: made, split, used from several threads, as a mesh; their options; what they refuse."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _get_default_group

from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks, context

from ._delays import delayed


def _sum_over(group: Any, value: float) -> float:
    tensor = torch.full((5,), value, device="cuda")
    dist.all_reduce(tensor, group=group)
    return float(tensor[4])


def _options(**values: Any) -> Any:
    import pycomms

    options = pycomms.Options(timeout=timedelta(seconds=30))
    for name, value in values.items():
        setattr(options, name, value)
    return options


# --- making groups


def bound_device(rank: int, world: int) -> None:
    context().init("bound", device_id=torch.device("cuda", 0))
    from ._preload import nccl  # on a rank only

    inits, splits = nccl.calls("ncclCommInitRankConfig"), nccl.calls("ncclCommSplit")
    new_and_split(rank, world)
    assert nccl.calls("ncclCommInitRankConfig") == inits  # they are split from the default group
    assert nccl.calls("ncclCommSplit") > splits


def new_and_split(rank: int, world: int) -> None:
    """Of a default group that has a device_id."""
    everyone = dist.new_group(list(range(world)))
    halves = [dist.new_group(list(range(first, world, 2))) for first in (0, 1)]
    assert _sum_over(everyone, 1.0) == world
    mine = halves[rank % 2]
    assert _sum_over(mine, float(rank)) == sum(range(rank % 2, world, 2))
    part = dist.split_group(split_ranks=[list(range(0, world, 2)), list(range(1, world, 2))])
    assert _sum_over(part, float(rank)) == sum(range(rank % 2, world, 2))
    assert _sum_over(None, 1.0) == world


@pytest.mark.parametrize("world", [2, 4])
def test_groups_of_a_bound_device_are_split(ranks: Ranks, world: int) -> None:
    ranks.run(bound_device, world=world, init=False, fresh=True)


def mesh(rank: int, world: int) -> None:
    grid = init_device_mesh("cuda", (2, world // 2), mesh_dim_names=("rows", "columns"))
    rows, columns = grid.get_group("rows"), grid.get_group("columns")
    row, column = divmod(rank, world // 2)
    assert _sum_over(columns, float(rank)) == sum(row * (world // 2) + c for c in range(world // 2))
    assert _sum_over(rows, float(rank)) == column + column + world // 2
    flat = grid["rows", "columns"]._flatten("all")
    assert _sum_over(flat.get_group(), 1.0) == world


def test_device_mesh(ranks: Ranks) -> None:
    ranks.run(mesh, world=4)


def in_threads(rank: int, world: int, rounds: int) -> None:
    """Each thread has a group and a stream of its own and goes at its own pace."""
    groups: list[Any] = [dist.new_group(list(range(world))) for _ in range(4)]
    start = threading.Barrier(len(groups))

    def use(index: int) -> None:
        start.wait(20.0)
        with torch.cuda.stream(torch.cuda.Stream()):
            for number in range(rounds):
                size = 1 + 997 * index * (number % 3)
                tensor = torch.full((size,), float(rank + number), device="cuda")
                work = dist.all_reduce(tensor, group=groups[index], async_op=number % 2 == 0)
                if work is not None:
                    work.wait()
                expected = float(world * (world - 1) // 2 + world * number)
                assert tensor.cpu().eq(expected).all()

    with delayed("random"), ThreadPoolExecutor(len(groups)) as threads:
        for future in [threads.submit(use, index) for index in range(len(groups))]:
            future.result(60.0)


@pytest.mark.parametrize("world", [2, 4])
def test_threads_with_groups_of_their_own(ranks: Ranks, world: int) -> None:
    ranks.run(in_threads, 30, world=world)


# --- options


def high_priority(rank: int, world: int) -> None:
    group = dist.new_group(list(range(world)), pg_options=_options(is_high_priority_stream=True))
    assert _sum_over(group, 1.0) == world


def test_high_priority(ranks: Ranks) -> None:
    ranks.run(high_priority, world=2)


def blocking_wait(rank: int, world: int) -> None:
    from ._preload import emulator  # on a rank only

    blocking: Any = dist.new_group(list(range(world)), pg_options=_options(blocking_wait=True))
    plain: Any = dist.new_group(list(range(world)))
    with delayed("300us"):
        for group, blocks in ((blocking, True), (plain, False)):
            tensor = torch.ones(10, device="cuda")
            dist.all_reduce(tensor, group=group)
            torch.cuda.synchronize()
            with emulator.held(torch.cuda.current_stream()):
                # An operation that cannot end: the wait that blocks gives up, the one that does not returns.
                work: Any = dist.all_reduce(tensor, group=group, async_op=True)
                if blocks:
                    with pytest.raises(RuntimeError, match="gave up"):
                        work.wait(timedelta(milliseconds=50))
                    assert not work.is_completed()
                else:
                    work.wait()
            work.wait()
            if blocks:
                assert work.is_completed()
            assert tensor.tolist() == [float(world**2)] * 10


def test_blocking_wait(ranks: Ranks) -> None:
    ranks.run(blocking_wait, world=2)


# --- works


def wait_with_a_timeout(rank: int, world: int) -> tuple[Caught, float]:
    from ._preload import emulator  # on a rank only

    tensor = torch.ones(10, device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    with emulator.held(torch.cuda.current_stream()):
        work = dist.all_reduce(tensor, async_op=True)
        caught = needed(lambda: work.wait(timedelta(milliseconds=100)))
    assert work.wait(timedelta(seconds=20))
    assert work.is_success()
    return caught, float(tensor[0])


def test_wait_with_a_timeout(ranks: Ranks) -> None:
    for caught, value in ranks.run(wait_with_a_timeout, world=2):
        assert caught.kind == "CollectiveTimeout"
        assert 0.05 < caught.seconds() < 5.0
        assert value == 4.0


def futures(rank: int, world: int) -> None:
    """A callback runs in stream order: it may use the result at once."""
    with delayed("300us"):
        for step in range(10):
            tensor = torch.full((1000,), float(step + rank), device="cuda")
            future = dist.all_reduce(tensor, async_op=True).get_future()
            doubled = future.then(lambda done: done.value()[0] * 2).then(lambda done: done.value() + 1)
            expected = 2.0 * (world * step + world * (world - 1) / 2) + 1
            assert doubled.wait().tolist() == [expected] * 1000
            assert future.wait()[0].data_ptr() == tensor.data_ptr()


def test_futures(ranks: Ranks) -> None:
    ranks.run(futures, world=2)


def duration(rank: int, world: int) -> None:
    backend: Any = _get_default_group()._get_backend(torch.device("cuda"))
    untimed = dist.all_reduce(torch.ones(4, device="cuda"), async_op=True)
    untimed.wait()
    with pytest.raises(RuntimeError, match="timed"):
        untimed._get_duration()
    backend._enable_collectives_timing()
    with delayed("300us"):
        for is_async in (False, True):
            work = _get_default_group().allreduce([torch.ones(4, device="cuda")], _sum(is_async))
            work.wait()
            torch.cuda.synchronize()
            assert 0.2 < work._get_duration() < 1000.0  # ms


def _sum(is_async: bool) -> Any:
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.SUM
    options.asyncOp = is_async
    return options


def test_duration(ranks: Ranks) -> None:
    ranks.run(duration, world=2)


# --- barriers and objects


def barriers(rank: int, world: int) -> list[int]:
    context_before = torch.cuda.current_device()
    dist.barrier()  # of a group that has not touched a GPU
    tensor = torch.full((4,), 1.0, device="cuda:1")
    dist.all_reduce(tensor)
    dist.barrier()
    dist.barrier(device_ids=[1])
    dist.barrier(async_op=True).wait()
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    assert torch.cuda.current_device() == context_before
    return [torch.cuda.memory_stats(device).get("allocation.all.allocated", 0) for device in range(2)]


def test_barriers_stay_on_the_groups_device(ranks: Ranks) -> None:
    for on_first, on_second in ranks.run(barriers, world=2, fresh=True):
        assert on_first == 0
        assert on_second > 0


def objects(rank: int, world: int) -> None:
    dist.all_reduce(torch.ones(1, device="cuda"))
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, {"rank": rank, "size": "x" * rank * 100})
    assert [one["rank"] for one in everyone] == list(range(world))
    some: list[Any] = ["a", {"b": 1}] if rank == 1 else [None, None]
    dist.broadcast_object_list(some, src=1)
    assert some == ["a", {"b": 1}]
    on_gpu: list[Any] = ["c"] if rank == 0 else [None]
    dist.broadcast_object_list(on_gpu, src=0, device=torch.device("cuda"))
    assert on_gpu == ["c"]


def test_objects(ranks: Ranks) -> None:
    ranks.run(objects, world=3)


# --- what is refused


def refusals(rank: int, world: int) -> list[Caught]:
    first, second = torch.ones(4, device="cuda:0"), torch.ones(4, device="cuda:1")
    dist.all_reduce(first)
    caught = [
        needed(lambda: dist.all_gather_single(torch.ones(4 * world, device="cuda:1"), first)),
        needed(lambda: dist.all_reduce(second)),
        needed(lambda: dist.all_gather([first, torch.ones(4)], first)),
    ]
    dist.all_reduce(first)
    assert first.tolist() == [float(world**2)] * 4
    return caught


def test_one_gpu_for_a_group_and_one_device_for_a_call(ranks: Ranks) -> None:
    for two_devices, second_gpu, gpu_and_cpu in ranks.run(refusals, world=2):
        for caught, said in ((two_devices, "same device"), (second_gpu, "one GPU"), (gpu_and_cpu, "same device")):
            assert caught.kind == "ValueError", caught
            assert said in caught.text, caught


def refuse_what_nccl_cannot(rank: int, world: int) -> list[Caught]:
    whole = torch.ones(4, device="cuda", dtype=torch.int32)
    other_float8 = torch.ones(4, device="cuda").to(torch.float8_e4m3fnuz)
    caught = [
        needed(lambda: dist.all_reduce(other_float8)),
        needed(lambda: dist.recv(whole)),
    ]
    dist.all_reduce(whole)
    assert whole.tolist() == [world] * 4
    return caught


def test_what_nccl_cannot_do_is_refused_before_anything_is_sent(ranks: Ranks) -> None:
    for answers in ranks.run(refuse_what_nccl_cannot, world=2):
        assert {caught.kind for caught in answers} <= {"TypeError", "ValueError", "NotImplementedError"}, answers


# --- no driver

_NO_DRIVER = """
import torch, torch.distributed as dist, pycomms
from torch._C._distributed_c10d import HashStore
assert not torch.cuda.is_available()
store = HashStore()
dist.init_process_group("nccl2", store=store, rank=0, world_size=1)
tensor = torch.ones(3)
dist.all_reduce(tensor)
child = dist.new_group([0])
child.abort()
dist.destroy_process_group()
dist.init_process_group("nccl2", store=HashStore(), rank=0, world_size=1)
try:
    dist.all_reduce(torch.ones(3, device="cuda"))
except (RuntimeError, AssertionError) as error:
    print("error:", error)
dist.destroy_process_group()
print("end")
"""


def test_a_machine_with_no_driver() -> None:
    """In a process of its own: this one may have the emulator."""
    done = subprocess.run([sys.executable, "-c", _NO_DRIVER], capture_output=True, text=True, timeout=60.0, check=False)
    if "assert not torch.cuda.is_available()" in done.stderr:
        pytest.skip("this machine has a driver")
    assert done.returncode == 0, done.stderr
    assert "end" in done.stdout
    assert "NVIDIA" in done.stdout or "CUDA" in done.stdout, done.stdout
