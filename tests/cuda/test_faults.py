"""GPU groups when things go wrong: calls that stay in progress, operations that never end, engine errors, killed ranks.
Each ends in the right error by its deadline, the process lives, and a new group works.
"""

from __future__ import annotations

import signal
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from tests.cuda_emulator.nccl import Point, Result
from tests.multirank._errors import Caught, catch, needed
from tests.multirank._harness import Ranks, context

_DEADLINE_S = 2.0
_GRACE_S = 3.0  # until whoever waits has heard of it, on a loaded machine
_OPERATIONS = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "barrier")


def _nccl() -> Any:
    from ._preload import nccl  # on a rank only

    return nccl


def _sum_works(rank: int, world: int, group: dist.ProcessGroup | None = None) -> None:
    tensor = torch.full((4,), float(rank + 1), device="cuda")
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [world * (world + 1) / 2] * 4


def _renew(name: str) -> None:
    """What a program does that wants to go on: end the broken group and make another."""
    dist.destroy_process_group()
    context().init(name, timeout=30.0)


def _issue(op: str, rank: int, world: int) -> None:
    tensor = torch.ones(1024 * world, device="cuda")
    part = torch.ones(1024, device="cuda")
    if op == "all_reduce":
        dist.all_reduce(tensor)
    elif op == "broadcast":
        dist.broadcast(tensor, 0)
    elif op == "all_gather":
        dist.all_gather_single(tensor, part)
    elif op == "reduce_scatter":
        dist.reduce_scatter_single(part, tensor)
    elif op == "all_to_all":
        dist.all_to_all_single(torch.empty_like(tensor), tensor)
    elif op == "send_recv":
        if rank == 0:
            dist.send(tensor, world - 1)
        elif rank == world - 1:
            dist.recv(tensor, 0)
    else:
        dist.barrier()


def _issue_and_synchronize(op: str, rank: int, world: int) -> None:
    """Until the error is raised: a later call tells what became of what is in flight."""
    for _ in range(200):
        _issue(op, rank, world)
        torch.cuda.synchronize()


# --- calls that stay in progress


def check_stuck(rank: int, world: int, point: Point) -> Caught:
    nccl = _nccl()
    if point is not Point.INIT:
        _sum_works(rank, world)
    if rank == 0:
        nccl.stay_in_progress(point)

    def go() -> None:
        if point is Point.SPLIT:
            child = _gpu_backend().split(context().store("child"), list(range(world)), _options())
            child.allreduce([torch.ones(4, device="cuda")]).wait()
            torch.cuda.synchronize()
            return
        _issue_and_synchronize("all_reduce", rank, world)

    caught = needed(go)
    nccl.clear_faults()
    _renew("after")
    _sum_works(rank, world)
    return caught


def _gpu_backend() -> Any:
    return _get_default_group()._get_backend(torch.device("cuda"))


def _options() -> Any:
    import pycomms

    return pycomms.Options(timeout=timedelta(seconds=_DEADLINE_S))


@pytest.mark.parametrize("point", [Point.INIT, Point.SPLIT, Point.OPERATION])
@pytest.mark.parametrize("world", [2, 4])
def test_in_progress_for_ever_ends_by_the_deadline(ranks: Ranks, world: int, point: Point) -> None:
    for caught in ranks.run(check_stuck, point, world=world, group_timeout=_DEADLINE_S, fresh=True):
        assert caught.kind in ("CollectiveTimeout", "PeerFailure", "CommunicatorRevoked"), caught
        assert caught.seconds() < 2 * _DEADLINE_S + _GRACE_S, caught


def check_slow(rank: int, world: int, point: Point) -> None:
    _nccl().stay_in_progress(point, polls=50, times=3)
    _sum_works(rank, world)
    assert _nccl().faults_struck() > 0


@pytest.mark.parametrize("point", [Point.INIT, Point.OPERATION])
def test_in_progress_for_a_while_is_waited_for(ranks: Ranks, point: Point) -> None:
    ranks.run(check_slow, point, world=2, fresh=True)


# --- operations that never end, and the engine's errors


def check_hang(rank: int, world: int, op: str) -> Caught:
    _sum_works(rank, world)
    if rank == 0:
        _nccl().hang_operation()
    caught = needed(lambda: _issue_and_synchronize(op, rank, world))
    _renew("after")
    _sum_works(rank, world)
    return caught


@pytest.mark.parametrize("op", _OPERATIONS)
def test_an_operation_that_never_ends_times_out(ranks: Ranks, op: str) -> None:
    for caught in ranks.run(check_hang, op, world=2, group_timeout=_DEADLINE_S, fresh=True):
        assert caught.kind in ("CollectiveTimeout", "PeerFailure", "CommunicatorRevoked"), caught
        assert caught.seconds() < _DEADLINE_S + _GRACE_S, caught


def check_async_error(rank: int, world: int) -> Caught:
    _sum_works(rank, world)
    if rank == 0:
        _nccl().fail_operation(Result.SYSTEM_ERROR, after=3, reason="the network card fell out")
    return needed(lambda: _issue_and_synchronize("all_reduce", rank, world))


def test_the_engines_error_is_told(ranks: Ranks) -> None:
    first, second = ranks.run(check_async_error, world=2, group_timeout=_DEADLINE_S, fresh=True)
    assert "the network card fell out" in first.text, first
    assert first.seconds() < _DEADLINE_S + _GRACE_S
    assert second.seconds() < _DEADLINE_S + _GRACE_S


# --- a rank dies


def check_death(rank: int, world: int, op: str) -> Caught:
    _sum_works(rank, world)
    context().tell("ready")
    return needed(lambda: _until_it_fails(op, rank, world))


def _until_it_fails(op: str, rank: int, world: int) -> None:
    while True:
        _issue(op, rank, world)
        torch.cuda.synchronize()


@pytest.mark.parametrize("op", _OPERATIONS)
def test_a_killed_rank_is_named(ranks: Ranks, op: str) -> None:
    world = 2 if op == "send_recv" else 3
    with ranks.start(check_death, op, world=world, fresh=True, group_timeout=20.0) as run:
        for rank in range(world):
            assert run.told(rank) == "ready"
        killed_ns = run.signal(world - 1, signal.SIGKILL)
        answers = run.finish(died={world - 1})
    for caught in answers[:-1]:
        assert caught.kind == "PeerFailure", caught
        assert caught.ranks == (world - 1,), caught
        assert (caught.raised_ns - killed_ns) / 1e9 < _GRACE_S, caught


# --- abort


def check_abort(rank: int, world: int, op: str) -> Caught | None:
    _sum_works(rank, world)
    if rank == 0:
        _nccl().hang_operation()
    group = _get_default_group()
    caught: list[Caught | None] = []
    caller = threading.Thread(target=lambda: caught.append(catch(lambda: _issue_and_synchronize(op, rank, world))))
    caller.start()
    if rank == 0:
        context().signpost("abort")
    context().await_signpost("abort")
    group.abort()
    _nccl().clear_faults()
    caller.join(30.0)
    assert not caller.is_alive()
    _renew("after")
    _sum_works(rank, world)
    return caught[0]


@pytest.mark.parametrize("op", _OPERATIONS)
def test_abort_from_another_thread(ranks: Ranks, op: str) -> None:
    for caught in ranks.run(check_abort, op, world=2, group_timeout=30.0, fresh=True, timeout=60.0):
        assert caught is not None
        assert caught.seconds() < 10.0, caught


# --- nothing is left


def _entries(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())


def check_cycles(rank: int, world: int, cycles: int) -> list[tuple[int, int]]:
    _sum_works(rank, world)
    seen = []
    for cycle in range(cycles):
        dist.destroy_process_group()
        context().init(f"cycle {cycle}")
        _sum_works(rank, world)
        child = _gpu_backend().split(context().store(f"child {cycle}"), [0, 1], _options())
        child.allreduce([torch.ones(4, device="cuda")]).wait()
        torch.cuda.synchronize()
        child.shutdown()
        seen.append((_entries("/proc/self/task"), _entries("/proc/self/fd")))
    dist.destroy_process_group()
    assert _nccl().live().communicators == 0
    return seen


def test_cycles_leave_no_thread_descriptor_or_communicator(ranks: Ranks, long: bool) -> None:
    cycles = 500 if long else 40
    for seen in ranks.run(check_cycles, cycles, world=2, fresh=True, timeout=110.0):
        threads, descriptors = zip(*seen, strict=True)
        assert max(threads[cycles // 2 :]) <= max(threads[: cycles // 2])
        assert max(descriptors[cycles // 2 :]) <= max(descriptors[: cycles // 2])
