"""Reductions of GPU tensors that NCCL cannot compute: the bits of the engine for CPU tensors, in every operation, sync
and async, in blocks, in CUDA graphs, with delays, while memory is reused, and while calls of NCCL stay in progress.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from tests.cuda_emulator.nccl import Point
from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks
from tests.multirank._reference.dtypes import BITWISE
from tests.multirank.test_matrix import reducing_cases, run_cases

from ._composed import BESIDE, COMPOSED, OPS, Call, Reducing, differences, expected
from ._delays import DELAYS
from .test_matrix import nccl_can_reduce

_COUNTS = (0, 1, 77, 20_011)
_PERIODIC = (*COMPOSED[::3], BESIDE)


def _device() -> torch.device:
    return torch.device("cuda", torch.cuda.current_device())


# --- alone


@pytest.mark.parametrize("world", [1, 2, 4])
def test_against_the_reference(ranks: Ranks, world: int, request: pytest.FixtureRequest) -> None:
    cases = [case for case in reducing_cases(world) if not nccl_can_reduce(case)]
    assert {case.reduction for case in cases} >= {"AVG", *BITWISE}
    run_cases(ranks, world, cases, request, "cuda")


def play_each(rank: int, world: int, delays: str) -> list[str]:
    from ._preload import emulator  # on a rank only

    group = _get_default_group()
    counts = _COUNTS if delays == "none" else _COUNTS[2:3]
    failures: list[str] = []
    with emulator.delays(DELAYS[delays]):
        for seed, (op, kind, count, is_async) in enumerate(product(OPS, COMPOSED, counts, (False, True))):
            case = Reducing(op=op, dtype=kind[0], reduction=kind[1], count=count, is_async=is_async, seed=seed)
            call = Call(case, rank, world, "cuda", group)
            work = call.issue()
            if is_async:
                work.wait()
            failures += differences(case, call.bits(), expected(case, rank, world, group))
    return failures


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("world", [1, 2, 4])
def test_bits_of_the_cpu_engine(ranks: Ranks, world: int, delays: str) -> None:
    for failures in ranks.run(play_each, delays, world=world, timeout=110.0):
        assert not failures, "\n".join(failures[:20])


# --- in blocks


def play_block(rank: int, world: int, is_async: bool, delays: str) -> list[str]:
    from ._preload import emulator  # on a rank only

    group = _get_default_group()
    failures: list[str] = []
    plain = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_single")
    for step, op in enumerate(plain):
        cases = [
            Reducing(op=op, dtype=dtype, reduction=reduction, count=65, is_async=is_async, seed=step * 100 + number)
            for number, (dtype, reduction) in enumerate(_PERIODIC)
        ]
        with emulator.delays(DELAYS[delays]):
            calls = [Call(case, rank, world, "cuda", group) for case in cases]
            group._start_coalescing(_device())
            for call in calls:
                call.issue()
            group._end_coalescing(_device()).wait()
            actual = [call.bits() for call in calls]
        for case, bits in zip(cases, actual, strict=True):
            failures += differences(case, bits, expected(case, rank, world, group))
    return failures


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("world", [2, 4])
def test_many_in_one_block(ranks: Ranks, world: int, is_async: bool, delays: str) -> None:
    for failures in ranks.run(play_block, is_async, delays, world=world, timeout=110.0):
        assert not failures, "\n".join(failures[:20])


def mixed_lists(rank: int, world: int) -> list[str]:
    """Tensors of several types in one call: some are composed and some are not."""
    group = _get_default_group()
    lists = {
        device: [
            torch.full((33,), 3 + rank, dtype=dtype).to(device) for dtype in (torch.int16, torch.int64, torch.uint16)
        ]
        for device in ("cpu", "cuda")
    }
    for tensors in lists.values():
        group.allreduce_coalesced(tensors, dist.AllreduceCoalescedOptions()).wait()
    return [f"{a} {b}" for a, b in zip(lists["cuda"], lists["cpu"], strict=True) if a.tolist() != b.tolist()]


def test_lists_of_several_types(ranks: Ranks) -> None:
    assert ranks.run(mixed_lists, world=2) == [[], []]


# --- in CUDA graphs


def play_captured(rank: int, world: int, is_async: bool, delays: str) -> list[str]:
    from ._preload import emulator  # on a rank only

    group = _get_default_group()
    failures: list[str] = []
    with emulator.delays(DELAYS[delays]):
        for number, (op, kind) in enumerate(product(OPS, _PERIODIC)):
            case = Reducing(op=op, dtype=kind[0], reduction=kind[1], count=60, is_async=is_async, seed=number)
            call = Call(case, rank, world, "cuda", group)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                work = call.issue()
                if is_async:
                    work.wait()
                torch.full((500,), -1.0, device="cuda")  # may have memory of the operation's that is free by then
            for _ in range(2):
                fresh = Call(case, rank, world, "cuda", group)
                for old, new in zip(call.inputs, fresh.inputs, strict=True):
                    old.copy_(new)
                graph.replay()
                failures += differences(case, call.bits(), expected(case, rank, world, group))
    return failures


@pytest.mark.parametrize("delays", ["none", "random"])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("world", [2, 4])
def test_captured(ranks: Ranks, world: int, is_async: bool, delays: str) -> None:
    for failures in ranks.run(play_captured, is_async, delays, world=world, timeout=110.0):
        assert not failures, "\n".join(failures[:20])


# --- memory


def drop_everything(rank: int, world: int, delays: str) -> list[str]:
    """Inputs and works are dropped at once, and others take what memory is free."""
    from ._preload import emulator  # on a rank only

    group = _get_default_group()
    failures: list[str] = []
    kept: list[tuple[Reducing, torch.Tensor]] = []
    with emulator.delays(DELAYS[delays]):
        for seed in range(25):
            dtype, reduction = COMPOSED[seed % len(COMPOSED)]
            op = "reduce_scatter_single"
            case = Reducing(op=op, dtype=dtype, reduction=reduction, count=3000, is_async=True, seed=seed)
            call = Call(case, rank, world, "cuda", group)
            call.issue()
            kept.append((case, call.outs[0]))
            del call
            for _ in range(3):
                torch.full((12_000,), -1, dtype=torch.int32, device="cuda")
        torch.cuda.synchronize()
    for case, out in kept:
        failures += differences(case, [out.cpu().view(torch.uint8)], expected(case, rank, world, group))
    return failures


@pytest.mark.parametrize("delays", DELAYS)
def test_what_is_dropped_at_once(ranks: Ranks, delays: str) -> None:
    for failures in ranks.run(drop_everything, delays, world=2):
        assert not failures, "\n".join(failures)


def wait_on_another_stream(rank: int, world: int) -> list[str]:
    """The end of an operation is behind its last kernel, whoever waits for it."""
    from ._preload import emulator  # on a rank only

    group = _get_default_group()
    failures: list[str] = []
    with emulator.delays(DELAYS["300us"]):
        for seed, (dtype, reduction) in enumerate(COMPOSED):
            op = "reduce_scatter" if seed % 2 else "all_reduce"
            case = Reducing(op=op, dtype=dtype, reduction=reduction, count=400, is_async=True, seed=seed)
            call = Call(case, rank, world, "cuda", group)
            work = call.issue()
            with torch.cuda.stream(torch.cuda.Stream()):
                work.wait()
                failures += differences(case, call.bits(), expected(case, rank, world, group))
    return failures


def test_a_wait_on_another_stream(ranks: Ranks) -> None:
    for failures in ranks.run(wait_on_another_stream, world=2):
        assert not failures, "\n".join(failures)


def other_layout(rank: int, world: int) -> None:
    x = (torch.arange(120) * (rank + 3)).to(torch.int16).reshape(1, 5, 4, 6)
    on_gpu = x.to("cuda").to(memory_format=torch.channels_last)
    on_cpu = x.to(memory_format=torch.channels_last)
    for tensor in (on_gpu, on_cpu):
        dist.all_reduce(tensor)
    assert torch.equal(on_gpu.cpu(), on_cpu)
    parameter = torch.ones(8, dtype=torch.complex64, device="cuda", requires_grad=True)
    opts = dist.AllreduceOptions()
    opts.reduceOp = dist.ReduceOp.PRODUCT
    with torch.no_grad():
        version = parameter._version
    _get_default_group().allreduce([parameter], opts).wait()
    assert parameter._version == version
    assert parameter.tolist() == [1.0] * 8


def test_channels_last_and_a_parameter(ranks: Ranks) -> None:
    ranks.run(other_layout, world=2)


# --- when NCCL takes its time, or gives up


def stay_in_progress(rank: int, world: int, in_block: bool) -> list[str]:
    from ._preload import nccl  # on a rank only

    group = _get_default_group()
    dist.all_reduce(torch.ones(1, device="cuda"))
    torch.cuda.synchronize()
    cases = [
        Reducing(op="all_reduce", dtype=dtype, reduction=reduction, count=90, is_async=bool(seed % 2), seed=seed)
        for seed, (dtype, reduction) in enumerate(_PERIODIC)
    ]
    calls = [Call(case, rank, world, "cuda", group) for case in cases]
    torch.cuda.synchronize()
    times = 1 if in_block else len(calls) - 1  # two exchanges each; the last one is not composed
    nccl.stay_in_progress(Point.OPERATION, polls=40, times=2 * times)
    if in_block:
        group._start_coalescing(_device())
    works = [call.issue() for call in calls]
    if in_block:
        works = [group._end_coalescing(_device())]
    for work in works:
        work.wait()
    actual = [call.bits() for call in calls]
    assert nccl.faults_struck() == 2 * times
    nccl.clear_faults()
    failures: list[str] = []
    for case, bits in zip(cases, actual, strict=True):
        failures += differences(case, bits, expected(case, rank, world, group))
    return failures


@pytest.mark.parametrize("in_block", [False, True])
def test_calls_that_stay_in_progress(ranks: Ranks, in_block: bool) -> None:
    for failures in ranks.run(stay_in_progress, in_block, world=2, fresh=True):
        assert not failures, "\n".join(failures)


def refused(rank: int, world: int) -> list[Caught]:
    group: Any = _get_default_group()
    half = torch.ones(4, device="cuda", dtype=torch.float16)
    number = torch.ones(4, device="cuda", dtype=torch.complex64)
    flag = torch.ones(4, device="cuda", dtype=torch.bool)
    short = torch.ones(4, device="cuda", dtype=torch.int16)
    maximum = dist.AllreduceOptions()
    maximum.reduceOp = dist.ReduceOp.MAX
    caught = [
        needed(lambda: dist.all_reduce(half, dist.ReduceOp.BAND)),
        needed(lambda: group.allreduce([number], maximum)),
        needed(lambda: dist.all_reduce(flag, dist.ReduceOp.AVG)),
        needed(lambda: dist.reduce_scatter(short, [short] * (world + 1))),
        needed(lambda: dist.reduce_scatter_tensor(short, torch.ones(4 * world + 1, device="cuda", dtype=torch.int16))),
    ]
    dist.all_reduce(short)
    assert short.tolist() == [world] * 4
    return caught


def test_what_makes_no_sense_is_refused(ranks: Ranks) -> None:
    for answers in ranks.run(refused, world=2):
        assert [caught.kind for caught in answers] == [
            "ValueError",
            "ValueError",
            "TypeError",
            "ValueError",
            "ValueError",
        ]
