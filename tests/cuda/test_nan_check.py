"""Groups that look for NaN, on GPU tensors: the operation runs, and whoever waits or calls next learns what was in it;
the group goes on, and nothing is found that is not there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist

import pycomms
from tests.multirank._errors import Caught, catch, needed
from tests.multirank._harness import Ranks
from tests.multirank._not_finite import FLOATS, INF, NAN, SENDERS, can_hold, with_one

from ._delays import DELAYS

_PATIENCE = timedelta(seconds=30)
_ISSUING = ("ncclAllReduce", "ncclSend", "ncclBroadcast")


def _group(check: pycomms.NanCheck = pycomms.NanCheck.NAN, **options: Any) -> Any:
    return dist.new_group(pg_options=pycomms.Options(nan_check=check, **options), timeout=_PATIENCE)


def _bad(value: float = NAN, dtype: torch.dtype = torch.float32, count: int = 101) -> torch.Tensor:
    return with_one(value, dtype, count, "cuda")


def _sum_works(rank: int, world: int, group: Any) -> None:
    x = torch.full((4,), float(rank + 1), device="cuda")
    dist.all_reduce(x, group=group)
    assert x.tolist() == [world * (world + 1) / 2] * 4


def _wait_until_ended(work: Any) -> None:
    """Without a wait, which would raise."""
    torch.cuda.synchronize()
    deadline = time.monotonic() + _PATIENCE.total_seconds()
    while not work.is_completed():
        assert time.monotonic() < deadline


def _barrier_raises(group: Any) -> Caught | None:
    """Before it is issued, if what is wrong is known by then; otherwise because it waits for what is before it."""
    from ._preload import nccl  # on a rank only

    before = nccl.calls("ncclAllReduce")
    caught = catch(partial(dist.barrier, group))
    if caught is not None and nccl.calls("ncclAllReduce") == before:
        dist.barrier(group)
    return caught


def _what_is_wrong(caught: Caught | None, name: str) -> str | None:
    if caught is None or (caught.kind, caught.op, caught.ranks) != ("NotFinite", name, (0,)) or not caught.seq:
        return f"{name}: {caught}"
    said = ("rank 0", "holds NaN", "has been sent")
    return None if all(words in caught.text for words in said) else f"{name}: {caught.text}"


def find_in_each(rank: int, world: int, is_async: bool, delays: str) -> list[str]:
    """Rank 0 has the NaN."""
    from ._preload import emulator  # on a rank only

    group = _group()
    _sum_works(rank, world, group)
    failures: list[str | None] = []
    with emulator.delays(DELAYS[delays]):
        for name, (issue, all_send) in SENDERS.items():
            # What a rank only writes is not looked at.
            x = _bad() if rank == 0 or not all_send else _bad(1.0)
            call = partial(issue, x, rank, world, async_op=is_async, group=group)
            if is_async:
                caught = catch(partial(call().wait, _PATIENCE))
            else:  # the call itself knows if the operation was over before it returned
                caught = catch(call)
                caught = _barrier_raises(group) or caught
            if rank == 0:
                failures.append(_what_is_wrong(caught, name))
            elif caught is not None:
                failures.append(f"{name}: {caught}")
            _sum_works(rank, world, group)
    return [failure for failure in failures if failure]


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("world", [2, 4])
def test_every_operation(ranks: Ranks, world: int, is_async: bool, delays: str) -> None:
    assert ranks.run(find_in_each, is_async, delays, world=world) == [[]] * world


def find_every_type(rank: int, world: int) -> list[str]:
    failures: list[str] = []
    for which, values in ((pycomms.NanCheck.NAN, (NAN,)), (pycomms.NanCheck.NAN_AND_INF, (NAN, INF, -INF))):
        group = _group(which)
        for dtype in FLOATS:
            for value in (1.0, *values):
                if not can_hold(dtype, value):
                    continue
                x = _bad(value, dtype)
                outs = [torch.empty_like(x) for _ in range(world)]
                work: Any = dist.all_gather(outs, x, group=group, async_op=True)
                caught = catch(partial(work.wait, _PATIENCE))
                if (caught is not None) != (value != 1.0):
                    failures.append(f"{which} {dtype} {value}: {caught}")
        if which is pycomms.NanCheck.NAN:
            dist.all_reduce(_bad(INF), group=group)
        dist.all_reduce(torch.full((5,), -1, device="cuda"), group=group)
        dist.all_reduce(torch.ones(0, device="cuda"), group=group)
        dist.barrier(group)
        _sum_works(rank, world, group)
    return failures


def test_every_type(ranks: Ranks) -> None:
    assert ranks.run(find_every_type, world=2) == [[], []]


def raise_in_next_call(rank: int, world: int, kind: str) -> list[Caught]:
    """Once, and the call is not issued; the first of several errors is told."""
    from ._preload import emulator, nccl  # on a rank only

    group = _group()
    _sum_works(rank, world, group)
    first, second = _bad(), _bad()
    with emulator.held(torch.cuda.current_stream()):  # nothing is known before both are issued
        works: list[Any] = [
            dist.all_reduce(first, group=group, async_op=True),
            dist.reduce(second, 0, group=group, async_op=True),
        ]
    for work in works:
        _wait_until_ended(work)
        assert not work.is_success()
    x = torch.ones(4, device="cuda")
    calls: dict[str, Callable[[], Any]] = {
        "collective": lambda: dist.all_reduce(x, group=group),
        "send": lambda: dist.isend(x, 1 - rank, group),
        "cpu": lambda: dist.all_reduce(torch.ones(4), group=group),
        "block": partial(_refused_in_a_block, x, group),
    }
    before = nccl.all_calls()
    caught = [needed(calls[kind])]
    after = nccl.all_calls()
    assert [after.get(name) for name in _ISSUING] == [before.get(name) for name in _ISSUING]
    _sum_works(rank, world, group)
    caught.append(needed(works[1].wait))  # a Work keeps its own error
    _sum_works(rank, world, group)
    return caught


def _refused_in_a_block(x: torch.Tensor, group: Any) -> None:
    group._start_coalescing(x.device)
    try:
        dist.broadcast(x, 0, group=group)
    finally:
        group._end_coalescing(x.device).wait()


@pytest.mark.parametrize("kind", ["collective", "send", "cpu", "block"])
def test_the_next_call(ranks: Ranks, kind: str) -> None:
    for first, second in ranks.run(raise_in_next_call, kind, world=2):
        assert (first.kind, first.op) == ("NotFinite", "all_reduce")
        assert (second.kind, second.op) == ("NotFinite", "reduce")
        assert "PycommsError" in first.bases
        assert first.seq + 1 == second.seq


def block_in_call(rank: int, world: int) -> Caught:
    group = _group(pycomms.NanCheck.NAN, blocking_wait=True)
    _sum_works(rank, world, group)
    caught = needed(lambda: dist.all_reduce(_bad(), group=group))
    _sum_works(rank, world, group)
    return caught


def test_blocking_wait(ranks: Ranks) -> None:
    for caught in ranks.run(block_in_call, world=2):
        assert (caught.kind, caught.op) == ("NotFinite", "all_reduce")


def receive(rank: int, world: int, delays: str) -> Caught | None:
    """Only the receiver looks."""
    from ._preload import emulator  # on a rank only

    group = _group(pycomms.NanCheck.NAN if rank == 1 else pycomms.NanCheck.OFF)
    with emulator.delays(DELAYS[delays]):
        if rank == 0:
            dist.send(_bad(), 1, group)
            dist.send(_bad(2.0), 1, group)
            dist.barrier(group)
            return None
        work: Any = dist.irecv(_bad(NAN), 0, group)
        caught = needed(lambda: work.wait(_PATIENCE))
        x = _bad(NAN)
        dist.recv(x, 0, group)
        assert x.tolist()[50] == 2.0
        dist.barrier(group)
    return caught


@pytest.mark.parametrize("delays", DELAYS)
def test_what_a_receive_brings(ranks: Ranks, delays: str) -> None:
    _, caught = ranks.run(receive, delays, world=2)
    assert caught is not None
    assert (caught.kind, caught.op, caught.seq, caught.ranks) == ("NotFinite", "recv", 0, (1,))
    assert "what it received, Float of shape [101], holds NaN" in caught.text


def in_a_block(rank: int, world: int, is_async: bool, with_cpu: bool, delays: str) -> Caught:
    from ._preload import emulator  # on a rank only

    group = _group()
    _sum_works(rank, world, group)
    with emulator.delays(DELAYS[delays]):
        clean, on_cpu = _bad(1.0), torch.full((4,), float(rank))
        device = clean.device
        group._start_coalescing(device)
        if with_cpu:
            dist.broadcast(on_cpu, 1, group=group)
        dist.broadcast(clean, 0, group=group)
        dist.reduce(_bad(), 0, group=group, async_op=is_async)
        caught = needed(lambda: group._end_coalescing(device).wait(_PATIENCE))
        _sum_works(rank, world, group)
    assert clean.tolist()[50] == 1.0
    if with_cpu:
        assert on_cpu.tolist() == [1.0] * 4
    return caught


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("with_cpu", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_in_a_block(ranks: Ranks, is_async: bool, with_cpu: bool, delays: str) -> None:
    for caught in ranks.run(in_a_block, is_async, with_cpu, delays, world=2):
        assert (caught.kind, caught.op) == ("NotFinite", "reduce")


def capture(rank: int, world: int) -> None:
    """Not looked at; neither is it what breaks a capture."""
    group = _group()
    x = torch.ones(8, device="cuda")
    dist.all_reduce(x, group=group)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work: Any = dist.all_reduce(x, group=group, async_op=True)
        work.wait()
        dist.all_reduce(x, group=group)
    x.fill_(NAN)
    graph.replay()
    dist.barrier(group)
    _sum_works(rank, world, group)
    assert x.isnan().all()


def test_under_capture(ranks: Ranks) -> None:
    ranks.run(capture, world=2)


def find_nothing(rank: int, world: int, delays: str) -> None:
    """Inputs are dropped at once, and what takes their memory is NaN."""
    from ._preload import emulator  # on a rank only

    group = _group()
    _sum_works(rank, world, group)
    with emulator.delays(DELAYS[delays]):
        for step in range(40):
            x = torch.full((5000,), float(step), device="cuda")
            out = torch.empty(5000 * world, device="cuda")
            dist.all_gather_single(out, x, group=group, async_op=bool(step % 2))
            del x
            torch.full((5000,), NAN, device="cuda")
            torch.full((1,), NAN, device="cuda")
        torch.cuda.synchronize()
        dist.barrier(group)
        _sum_works(rank, world, group)


@pytest.mark.parametrize("delays", DELAYS)
def test_what_is_dropped_at_once(ranks: Ranks, delays: str) -> None:
    ranks.run(find_nothing, delays, world=2)


def composed_too(rank: int, world: int) -> Caught:
    """A reduction that is composed is looked at like others."""
    group = _group()
    opts = dist.AllreduceOptions()
    opts.reduceOp = dist.ReduceOp.PRODUCT
    clean = torch.full((9,), 2.0 + 0j, device="cuda")
    group.allreduce([clean], opts).wait()
    assert clean.tolist() == [2.0**world + 0j] * 9
    caught = needed(lambda: group.allreduce([_bad(dtype=torch.complex64)], opts).wait(_PATIENCE))
    _sum_works(rank, world, group)
    return caught


def test_a_composed_reduction(ranks: Ranks) -> None:
    for caught in ranks.run(composed_too, world=2):
        assert "ComplexFloat of shape [101], holds NaN" in caught.text
