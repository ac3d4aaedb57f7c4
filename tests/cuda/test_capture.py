"""CUDA graphs with collectives in them: every operation, sync and async, replayed with new inputs; several in a graph,
on several streams; what outlives what.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from tests.multirank._errors import Caught, catch, needed
from tests.multirank._harness import Ranks, context
from tests.multirank._ops import MOVING, REDUCING, Case, Result

from ._delays import DELAYS, delayed
from ._staged import Staged, expected_results, wrong

_COUNT = 77
_REPLAYS = 3
_PATIENCE_S = 30.0


def _cases(world: int, every_reduction: bool) -> list[Case]:
    counts = tuple(_COUNT + 5 * rank for rank in range(world))
    cases: list[Case] = []
    for op, is_async in product([*MOVING, *REDUCING], (False, True)):
        if op == "isend_irecv":  # see nccl_can_move
            continue
        sizes = counts if op.endswith("_uneven") else (_COUNT,)
        reductions = ("SUM", "AVG", "PREMUL_SUM") if every_reduction else ("SUM",)
        case = Case(op=op, dtype=torch.float32, counts=sizes, root=world - 1, is_async=is_async)
        cases += [replace(case, reduction=reduction) for reduction in (reductions if op in REDUCING else ("",))]
    return cases


def capture_each(rank: int, world: int, delays: str, every_reduction: bool) -> list[str]:
    failures: list[str] = []
    with delayed(delays):
        for case in _cases(world, every_reduction):
            site = Staged(case, rank, world, device="cuda")
            failures += [f"{case}, before: {error}" for error in map(Result.error, site.run()) if error]
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                results = site.run()
            for seed in range(1, _REPLAYS + 1):
                expected = expected_results(site, seed)
                site.refill(seed)
                graph.replay()
                failures += [f"{case}, replay {seed}: {error}" for error in wrong(results, expected)]
    return failures


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("world", [2, 4])
def test_every_operation(ranks: Ranks, world: int, delays: str, long: bool) -> None:
    every_reduction = long or (world == 2 and delays == "none")
    for failures in ranks.run(capture_each, delays, every_reduction, world=world, timeout=110.0):
        assert not failures, "\n".join(failures[:20])


def _step(x: torch.Tensor, world: int, side: torch.cuda.Stream) -> torch.Tensor:
    """Kernels and collectives in turns, on two streams, with works that are waited for late or by others."""
    a = x * 2
    first: Any = dist.all_reduce(a, async_op=True)
    b = x + 1
    dist.all_reduce(b)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        first.wait()
        c = a * 3
        dist.broadcast(c, 0)
    gathered = torch.empty(world * x.numel(), device="cuda", dtype=x.dtype)
    second: Any = dist.all_gather_into_tensor(gathered, b, async_op=True)
    torch.cuda.current_stream().wait_stream(side)
    second.wait()
    return gathered.view(world, -1).sum(0) + c


def _step_alone(xs: list[torch.Tensor]) -> torch.Tensor:
    world = len(xs)
    everyone = torch.stack(xs)
    return (everyone + 1).sum(0) * world + (everyone * 2).sum(0) * 3


def capture_several(rank: int, world: int, delays: str) -> None:
    with delayed(delays):
        x = torch.zeros(1000, dtype=torch.int64, device="cuda")
        side = torch.cuda.Stream()
        _step(x, world, side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = _step(x, world, side)
        for seed in range(10):
            everyone = [torch.arange(1000) * (seed + 1) + 13 * r for r in range(world)]
            x.copy_(everyone[rank])
            graph.replay()
            eager = torch.full((8,), float(rank), device="cuda")  # between replays the group works as ever
            dist.all_reduce(eager)
            assert torch.equal(out.cpu(), _step_alone(everyone)), seed
            assert eager.tolist() == [world * (world - 1) / 2] * 8


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("world", [2, 4])
def test_several_in_one_graph(ranks: Ranks, world: int, delays: str) -> None:
    ranks.run(capture_several, delays, world=world)


def capture_block(rank: int, world: int, is_async: bool) -> None:
    device = torch.device("cuda", torch.cuda.current_device())
    a, b = torch.ones(64, device="cuda"), torch.ones(64, device="cuda")
    gathered = torch.empty(64 * world, device="cuda")

    def block() -> None:
        with _coalescing_manager(device=device, async_ops=is_async) as manager:
            dist.broadcast(a, world - 1)
            dist.reduce(b, 0)
            dist.all_to_all_single(gathered, gathered.clone().fill_(float(rank)))
        if is_async:
            manager.wait()

    block()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        block()
        doubled = gathered * 2
    for value in (3.0, 4.0):
        a.fill_(value + rank)
        b.fill_(value)
        graph.replay()
        assert a.tolist() == [value + world - 1] * 64
        if rank == 0:
            assert b.tolist() == [value * world] * 64
        assert doubled.view(world, -1)[:, 5].tolist() == [2.0 * r for r in range(world)]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_coalesced_block(ranks: Ranks, is_async: bool) -> None:
    ranks.run(capture_block, is_async, world=2)


def first_operation_is_captured(rank: int, world: int) -> None:
    x = torch.full((16,), 1.0, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    assert x.tolist() == [1.0] * 16  # a capture runs nothing
    graph.replay()
    assert x.tolist() == [float(world)] * 16


def test_the_first_operation_of_a_group(ranks: Ranks) -> None:
    ranks.run(first_operation_is_captured, world=2, fresh=True)


def forget_in_capture(rank: int, world: int, delays: str) -> None:
    """The memory of an input may not go to others in the graph before the operation has read it."""
    x = torch.zeros(5000, device="cuda")
    dist.all_reduce(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outs = []
        for _ in range(4):
            temporary = x + 1
            out = torch.empty(world * 5000, device="cuda")
            dist.all_gather_into_tensor(out, temporary, async_op=True)
            del temporary
            outs.append(out)
            torch.full((5000,), -1.0, device="cuda")
        last: Any = dist.all_reduce(x.clone(), async_op=True)
        last.wait()
    with delayed(delays):
        for value in range(5):
            x.fill_(float(value + rank))
            graph.replay()
            for out in outs:
                assert out.view(world, -1)[:, 7].tolist() == [value + r + 1.0 for r in range(world)]


@pytest.mark.parametrize("delays", DELAYS)
def test_a_work_that_is_dropped_in_a_capture(ranks: Ranks, delays: str) -> None:
    ranks.run(forget_in_capture, delays, world=2)


def wait_across(rank: int, world: int) -> Caught:
    x = torch.ones(100, device="cuda")
    y = torch.ones(100, device="cuda")
    dist.all_reduce(y)
    with delayed("300us"):
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        outside: Any = dist.all_reduce(x, async_op=True)
        with torch.cuda.stream(stream):
            graph.capture_begin()
            outside.wait()  # not a part of the graph
            inside: Any = dist.all_reduce(y, async_op=True)
            joined: Any = dist.all_reduce(y, async_op=True)
            joined.wait()
            graph.capture_end()
    assert x.tolist() == [float(world)] * 100
    caught = needed(inside.wait)
    graph.replay()
    torch.cuda.synchronize()
    assert y.tolist() == [float(world**3)] * 100
    dist.all_reduce(y)
    return caught


def test_works_inside_and_outside(ranks: Ranks) -> None:
    for caught in ranks.run(wait_across, world=2):
        assert "captured in a CUDA graph" in caught.text


def outlive(rank: int, world: int, replays: bool) -> Caught | None:
    x = torch.ones(100, device="cuda")
    dist.all_reduce(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work: Any = dist.all_reduce(x, async_op=True)
        work.wait()
    graph.replay()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    assert work.is_completed()
    assert work.result()[0].data_ptr() == x.data_ptr()
    if replays:
        return catch(lambda: _replay(graph))
    del work
    graph.reset()
    context().init("after")
    x.fill_(1.0)
    dist.all_reduce(x)
    assert x.tolist() == [float(world)] * 100
    return None


def _replay(graph: torch.cuda.CUDAGraph) -> None:
    graph.replay()
    torch.cuda.synchronize()


def test_a_graph_and_a_work_that_outlive_their_group(ranks: Ranks) -> None:
    ranks.run(outlive, False, world=2)


def test_a_replay_after_the_end_of_the_group_is_refused(ranks: Ranks) -> None:
    """By the engine, whose communicator is gone; docs/gpu.md says how NCCL has it."""
    for caught in ranks.run(outlive, True, world=2, fresh=True):
        assert caught is not None


def _async_max(tensor: torch.Tensor, group: Any) -> Any:
    return dist.all_reduce(tensor, dist.ReduceOp.MAX, group=group, async_op=True)


def capture_beside(rank: int, world: int) -> None:
    """One thread captures with one group while another group works in another thread."""
    other: Any = dist.new_group(list(range(world)))
    x, y = torch.ones(100, device="cuda"), torch.ones(100, device="cuda")
    dist.all_reduce(x)
    dist.all_reduce(y, dist.ReduceOp.MAX, group=other)
    torch.cuda.synchronize()
    capturing, worked = threading.Event(), threading.Event()
    failures: list[Caught | None] = []

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(20):
                _async_max(y, other).wait()

    def work_meanwhile() -> None:
        capturing.wait(_PATIENCE_S)
        failures.append(catch(work))
        worked.set()

    thread = threading.Thread(target=work_meanwhile)
    thread.start()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(torch.cuda.Stream()):
        graph.capture_begin()
        capturing.set()
        for _ in range(20):
            average: Any = dist.all_reduce(x, dist.ReduceOp.AVG, async_op=True)
            average.wait()
        assert worked.wait(_PATIENCE_S)
        graph.capture_end()
    thread.join(_PATIENCE_S)
    assert failures == [None]
    x.fill_(float(rank))
    graph.replay()
    assert x.tolist() == [(world - 1) / 2] * 100
    assert y.tolist() == [1.0] * 100


def test_capture_while_another_group_works(ranks: Ranks) -> None:
    ranks.run(capture_beside, world=2)
