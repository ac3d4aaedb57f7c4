"""Coalesced blocks on GPU tensors: every operation in one, from several streams, mixed with CPU tensors, left by an
exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager, _get_default_group

from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks, context
from tests.multirank._ops import MOVING, OPERATIONS, REDUCING, Case, Result, Site

from ._delays import DELAYS, delayed


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


class _InBlock(Site):
    """A site whose operations go into the block that is open, so that nobody waits for them one by one."""

    def call(self, operation: Any, *args: Any, **kwargs: Any) -> None:
        operation(*args, group=self.group, async_op=self.case.is_async, **kwargs)


@contextmanager
def _block() -> Iterator[list[Any]]:
    """A block as the backend has it. torch's manager takes some operations out, and issues them as one call."""
    group = _get_default_group()
    group._start_coalescing(_device())
    works: list[Any] = []
    yield works
    works.append(group._end_coalescing(_device()))


def _can_be_in_a_block(op: str) -> bool:
    """Blocks do not nest; a barrier blocks the host; isend_irecv: see nccl_can_move."""
    return not op.endswith("_coalesced") and op not in ("barrier", "batch_isend_irecv", "isend_irecv", "send_recv")


def everything_in_a_block(rank: int, world: int, is_async: bool, delays: str) -> list[str]:
    counts = tuple(64 + rank for rank in range(world))
    failures: list[str] = []
    with delayed(delays):
        for ops in ([op for op in (*MOVING, *REDUCING) if _can_be_in_a_block(op)], ["broadcast"], ["all_to_all"]):
            sites: list[tuple[Site, list[Result]]] = []
            with _block() as works:
                for seed, op in enumerate(ops):
                    reduction = "SUM" if op in REDUCING else ""
                    case = Case(
                        op=op,
                        dtype=torch.int64,
                        reduction=reduction,
                        counts=counts,
                        root=1,
                        seed=seed,
                        is_async=is_async,
                    )
                    site: Site = _InBlock(case, rank, world, device="cuda")
                    sites.append((site, OPERATIONS[op](site)))
            works[0].wait()
            for played, results in sites:
                errors = [result.error() for result in results]
                failures += [f"{played.case}: {error}" for error in errors if error]
    return failures


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("world", [2, 4])
def test_every_operation_in_one_block(ranks: Ranks, world: int, is_async: bool, delays: str) -> None:
    for failures in ranks.run(everything_in_a_block, is_async, delays, world=world):
        assert not failures, "\n".join(failures)


def batch(rank: int, world: int, delays: str) -> None:
    """Everybody with everybody, sends first: one after the other these would wait for each other."""
    others = [peer for peer in range(world) if peer != rank]
    with delayed(delays):
        for step in range(5):
            out = {peer: torch.zeros(1000, device="cuda") for peer in others}
            sends = [dist.P2POp(dist.isend, torch.full((1000,), 10.0 * rank + step, device="cuda"), p) for p in others]
            works = dist.batch_isend_irecv([*sends, *(dist.P2POp(dist.irecv, out[p], p) for p in others)])
            for work in works:
                work.wait()
            for peer in others:
                assert out[peer].tolist() == [10.0 * peer + step] * 1000


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("world", [2, 4])
def test_batch_isend_irecv(ranks: Ranks, world: int, delays: str) -> None:
    ranks.run(batch, delays, world=world)


def mixed(rank: int, world: int, is_async: bool) -> None:
    """A block with operations on the CPU and on the GPU has ended when both have."""
    for step in range(5):
        on_gpu, on_cpu = torch.full((500,), float(rank), device="cuda"), torch.full((500,), float(rank))
        with _coalescing_manager(device=_device(), async_ops=is_async) as manager:
            dist.broadcast(on_cpu, 1)
            dist.broadcast(on_gpu, 1)
            dist.reduce(on_cpu, step % world)
        if is_async:
            manager.wait()
        assert on_gpu.tolist() == [1.0] * 500
        if rank == step % world:
            assert on_cpu.tolist() == [float(world)] * 500


@pytest.mark.parametrize("is_async", [False, True])
def test_cpu_and_gpu_in_one_block(ranks: Ranks, is_async: bool) -> None:
    ranks.run(mixed, is_async, world=2)


def on_two_streams(rank: int, world: int) -> None:
    """Each tensor is written on a stream of its own just before its operation is added to the block."""
    streams = [torch.cuda.Stream() for _ in range(3)]
    with delayed("300us"):
        for step in range(10):
            tensors = []
            with _coalescing_manager(device=_device(), async_ops=True) as manager:
                for number, stream in enumerate(streams):
                    with torch.cuda.stream(stream):
                        tensor = torch.zeros(2000, dtype=torch.int64, device="cuda")
                        tensor.add_(rank + number * 10 + step)
                        dist.broadcast(tensor, 1)
                        tensors.append(tensor)
            manager.wait()
            for number, tensor in enumerate(tensors):
                assert tensor.tolist() == [1 + number * 10 + step] * 2000


def test_a_block_fed_from_several_streams(ranks: Ranks) -> None:
    ranks.run(on_two_streams, world=2)


class _Stop(Exception):
    pass


def _begin_a_block(x: torch.Tensor) -> None:
    with _coalescing_manager(device=_device(), async_ops=True):
        dist.broadcast(x, 1)
        raise _Stop


def leave_by_exception(rank: int, world: int, then: str) -> None:
    other: Any = dist.new_group(list(range(world)))
    x, y = torch.full((8,), float(rank), device="cuda"), torch.full((8,), float(rank + 1), device="cuda")
    dist.all_reduce(y.clone(), group=other)
    with pytest.raises(_Stop):
        _begin_a_block(x)
    if then == "same group":
        dist.all_reduce(y)
    elif then == "other group":
        dist.all_reduce(y, group=other)
    elif then == "destroy":
        dist.destroy_process_group(other)
        return
    elif then == "abort":
        context().signpost(f"{rank} has left the block")
        for peer in range(world):
            context().await_signpost(f"{peer} has left the block")
        dist.distributed_c10d._get_default_group().abort()
        dist.all_reduce(y, group=other)
    assert y.tolist() == [world * (world + 1) / 2] * 8
    if then != "abort":
        assert x.tolist() == [1.0] * 8


@pytest.mark.parametrize("then", ["same group", "other group", "destroy", "abort"])
def test_an_exception_in_a_block(ranks: Ranks, then: str) -> None:
    ranks.run(leave_by_exception, then, world=2, fresh=True)


def refused_batch(rank: int, world: int, device: str) -> None:
    """Where there is a GPU, torch makes a block of every batch, and leaves that open when a call in it is refused."""
    if rank == 0:
        with pytest.raises(ValueError, match="contiguous"):
            dist.batch_isend_irecv([dist.P2POp(dist.irecv, torch.ones(4, 4, device=device)[:, ::2], 1)])
    for _ in range(3):
        tensor = torch.ones(8, device=device)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [float(world)] * 8


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_follows_a_refused_batch_is_not_put_aside(ranks: Ranks, device: str) -> None:
    ranks.run(refused_batch, device, world=2)


def refused_in_a_block(rank: int, world: int) -> None:
    other: Any = dist.new_group(list(range(world)))
    x, y = torch.ones(8, device="cuda"), torch.ones(8, device="cuda")
    dist.all_reduce(y, group=other)
    with _coalescing_manager(device=_device(), async_ops=True) as manager:
        dist.broadcast(x, 0)
        caught = needed(lambda: dist.all_reduce(y, group=other))
        with pytest.raises(ValueError, match="share memory"):
            dist.all_gather([torch.empty(3, device="cuda")] * world, y)
        dist.broadcast(x, 1)
    manager.wait()
    assert caught.kind == "ValueError", caught
    assert "coalesced block" in caught.text, caught
    dist.all_reduce(y, group=other)
    assert y.tolist() == [float(world**2)] * 8


def test_what_a_block_refuses_leaves_it_usable(ranks: Ranks) -> None:
    ranks.run(refused_in_a_block, world=2)


def coalesced_calls(rank: int, world: int) -> None:
    """The calls of torch that take lists."""
    tensors = [torch.full((size,), float(rank + 1), device="cuda") for size in (3, 1000, 0, 70_000)]
    dist.all_reduce_coalesced(tensors)
    total = world * (world + 1) / 2
    assert all(tensor.cpu().eq(total).all() for tensor in tensors)
    lists = [[torch.zeros(size, device="cuda") for size in (3, 1000)] for _ in range(world)]
    mine = [torch.full((size,), float(rank), device="cuda") for size in (3, 1000)]
    work: Any = dist.all_gather_coalesced(lists, mine, async_op=True)
    work.wait()
    for source, parts in enumerate(lists):
        assert all(part.cpu().eq(float(source)).all() for part in parts)


def test_calls_with_lists(ranks: Ranks) -> None:
    ranks.run(coalesced_calls, world=2)


def lists_that_lie_differently(rank: int, world: int) -> None:
    """On one rank the tensors of a list follow each other in memory, on the others they do not."""
    pieces = torch.zeros(2 * world, 128, device="cuda")
    outs = list(pieces[:world]) if rank == 0 else list(pieces[::2])
    dist.all_gather(outs, torch.full((128,), float(rank), device="cuda"))
    assert [out[5].item() for out in outs] == [float(source) for source in range(world)]
    for source, out in enumerate(outs):
        out.fill_(float(source))
    mine = torch.zeros(128, device="cuda")
    dist.reduce_scatter(mine, outs)
    assert mine.tolist() == [float(world * rank)] * 128


@pytest.mark.parametrize("world", [2, 4])
def test_where_the_tensors_of_a_list_lie(ranks: Ranks, world: int) -> None:
    ranks.run(lists_that_lie_differently, world=world)


def no_operations_in_the_block_of_another(rank: int, world: int) -> list[Caught]:
    """NCCL would put them off until the end of the block."""
    import pycomms

    other: Any = dist.new_group(list(range(world)))
    first = torch.ones(4, device="cuda")
    dist.all_reduce(first)
    backend: Any = _get_default_group()._get_backend(_device())
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.ones(32 << 20, dtype=torch.uint8, device="cuda")
    backend.register_mem_pool(pool)
    other._start_coalescing(_device())
    dist.all_reduce(tensor, group=other)
    caught = [
        needed(backend.suspend),
        needed(backend.resume),
        needed(lambda: backend.register_mem_pool(pool)),
        needed(lambda: backend.deregister_mem_pool(pool)),
        needed(lambda: backend.split(context().store("split"), [0, 1], pycomms.Options())),
        needed(lambda: pycomms.shrink_group([1 - rank])),
    ]
    other._end_coalescing(_device()).wait()
    assert tensor[0] == world
    dist.all_reduce(first)
    assert first[0] == world * world
    backend.deregister_mem_pool(pool)
    return caught


def test_what_is_no_operation_is_refused_in_the_block_of_another_group(ranks: Ranks) -> None:
    for caught in ranks.run(no_operations_in_the_block_of_another, world=2, fresh=True):
        assert [one.kind for one in caught] == ["ValueError"] * 6
        assert all("end the block first" in one.text for one in caught), caught
