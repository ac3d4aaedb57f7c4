"""The flight recorder of real processes: what is in it while they run, when an operation fails, and after a kill."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

import pycomms
from pycomms import _C, flight_recorder
from pycomms.flight_recorder import _ring
from pycomms.flight_recorder._model import ANY_SOURCE, Flag, State

from ._errors import needed
from ._harness import Died, Ranks, context
from ._recorded import my_record, recorded, seen_in

native = pytest.mark.nccl2_only("other backends are recorded when attach() was called")


def line_here() -> int:
    return sys._getframe(1).f_lineno


def check_fields(rank: int, world: int) -> None:
    tensor = torch.ones(3, 2)
    first = line_here() + 3

    def calls() -> None:
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        dist.broadcast(tensor, src=world - 1)
        dist.reduce(tensor, dst=0)
        work = dist.all_reduce(torch.ones(2, dtype=torch.float64), async_op=True)
        assert work is not None
        work.wait()
        dist.all_to_all_single(
            torch.empty(world * (rank + 1)),
            torch.ones(world * (world + 1) // 2),
            output_split_sizes=[rank + 1] * world,
            input_split_sizes=[peer + 1 for peer in range(world)],
        )
        dist.barrier()

    seen = recorded(calls)
    assert [one.signature.kind for one in seen] == [
        "all_reduce",
        "broadcast",
        "reduce",
        "all_reduce",
        "all_to_all_single",
        "barrier",
    ]
    assert {one.state for one in seen} == {State.COMPLETED}
    assert [one.sequence for one in seen] == list(range(seen[0].sequence, seen[0].sequence + 6))
    assert [one.signature.reduction for one in seen] == ["max", "", "sum", "sum", "", ""]
    assert [one.signature.root for one in seen] == [-1, world - 1, 0, -1, -1, -1]
    assert seen[0].signature.input_sizes == seen[0].signature.output_sizes == ((3, 2),)
    assert seen[3].signature.input_dtypes == ("float64",)
    assert Flag.ASYNC in seen[3].flags
    assert seen[4].signature.input_splits == tuple(range(1, world + 1))
    assert seen[4].signature.output_splits == (rank + 1,) * world
    assert [one.site for one in seen[:4]] == [f"{__file__}:{first + i}" for i in range(4)]
    for one in seen:
        assert 0 < one.issued_ns <= one.ended_ns
        assert abs(one.issued_ns - time.time_ns()) < 60e9
    record = my_record()
    assert (record.rank, record.pid, record.alive) == (rank, os.getpid(), True)
    assert record.groups[-1].ranks == tuple(range(world))
    assert record.groups[-1].last_completed == seen[-1].sequence


@native
@pytest.mark.parametrize("world", [1, 2, 4])
def test_all_fields_of_collectives(ranks: Ranks, world: int) -> None:
    ranks.run(check_fields, world=world, fresh=True)


def check_requests(rank: int, world: int) -> None:
    tensor, peer = torch.ones(5), 1 - rank

    def calls() -> None:
        if rank == 0:
            dist.send(tensor, peer, tag=7)
            dist.recv(tensor, None)
        else:
            dist.recv(tensor, peer, tag=7)
            dist.send(tensor, peer)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, peer), dist.P2POp(dist.irecv, tensor, peer)])
        for work in works:
            work.wait()

    seen = recorded(calls)
    assert [one.sequence for one in seen] == [1, 2, 3, 4]
    assert all(Flag.P2P in one.flags for one in seen)
    expected = ["send", "recv_any_source"] if rank == 0 else ["recv", "send"]
    assert [one.signature.kind for one in seen] == [*expected, "send", "recv"]
    assert [one.signature.peer for one in seen] == [peer, ANY_SOURCE if rank == 0 else peer, peer, peer]
    assert seen[0].signature.tag == 7
    assert {one.state for one in seen} == {State.COMPLETED}


@native
def test_sends_and_receives(ranks: Ranks) -> None:
    ranks.run(check_requests, world=2, fresh=True)


def check_groups(rank: int, world: int) -> None:
    pair = dist.new_group([rank // 2 * 2, rank // 2 * 2 + 1], use_local_synchronization=True, group_desc="the pair")
    assert isinstance(pair, dist.ProcessGroup)
    seen = recorded(lambda: dist.all_reduce(torch.ones(1), group=pair))
    record = my_record()
    known = next(group for group in record.groups if group.name == seen[0].group)
    assert known.ranks == (rank // 2 * 2, rank // 2 * 2 + 1)
    assert known.description == "the pair"
    assert seen[0].sequence == 1
    dist.destroy_process_group(pair)


@native
def test_subgroups_have_their_ranks_and_sequence(ranks: Ranks) -> None:
    ranks.run(check_groups, world=4, fresh=True)


def check_mismatch(rank: int, world: int) -> None:
    def calls() -> None:
        needed(lambda: dist.all_reduce(torch.ones(2 + rank)))

    (entry,) = recorded(calls)
    assert entry.state == State.FAILED
    assert "all_reduce" in entry.error
    (after,) = recorded(lambda: needed(lambda: dist.all_reduce(torch.ones(1))))
    assert after.state == State.REJECTED
    assert after.sequence > entry.sequence
    (path,) = _dumps()
    assert _ring.read(path).stop_reason
    assert path.with_suffix(".stacks").read_text()


def _dumps() -> list[Path]:
    assert _C.recorder_wait_for_dumps(20.0)
    ring = flight_recorder.ring_path()
    assert ring is not None
    return sorted(ring.parent.glob(f"{ring.stem}.*.dump"))


@native
def test_a_failure_is_dumped_with_its_reason(ranks: Ranks) -> None:
    ranks.run(check_mismatch, world=2, fresh=True)


def check_many(rank: int, world: int) -> None:
    tensor = torch.ones(4)
    dist.barrier()
    context().tell(str(flight_recorder.ring_path()))
    for number in range(1_000_000):
        if number == 300:
            context().tell("in the middle")
        dist.all_reduce(tensor)


@native
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_the_record_of_a_rank_that_was_killed_or_stopped(ranks: Ranks, end: int) -> None:
    with ranks.start(check_many, world=2, fresh=True, timeout=60.0) as run:
        paths = [run.told(rank) for rank in range(2)]
        for rank in range(2):
            run.told(rank)
        run.signal(1, end)
        if end == signal.SIGSTOP:
            run.await_state(1, "T")
        else:
            assert isinstance(run.answer(1, 20.0), Died)
        record = _ring.read(paths[1])
        run.signal(1, signal.SIGKILL)
    entries = seen_in(record)
    assert record.warnings == ()
    assert record.alive == record.stopped == (end == signal.SIGSTOP)
    assert not record.closed
    last = entries[-1]
    assert last.sequence >= 300
    assert [one.sequence for one in entries] == list(range(entries[0].sequence, last.sequence + 1))
    assert all(one.state == State.COMPLETED for one in entries[:-1])
    assert last.state in (State.RUNNING, State.COMPLETED)


def check_timeout(rank: int, world: int) -> None:
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        context().hear()
        return
    (entry,) = recorded(lambda: needed(lambda: dist.all_reduce(torch.ones(1))))
    assert entry.state == State.TIMED_OUT
    assert "rank 1" in entry.error
    assert len(_dumps()) == 1


@native
def test_a_timeout_is_recorded_and_dumped(ranks: Ranks) -> None:
    with ranks.start(check_timeout, world=2, fresh=True, group_timeout=1.0) as run:
        run.answer(0, 30.0)
        run.send(1, "go on")
        run.finish()


def check_regroup(rank: int, world: int) -> None:
    dist.all_reduce(torch.ones(1))
    group = dist.group.WORLD
    assert group is not None
    mine = pycomms.regroup_handle(group)
    handles: list[str] = [""] * world
    dist.all_gather_object(handles, mine)
    pycomms.regroup(group, uuid=1, handles=handles).wait()
    seen = recorded(lambda: dist.all_reduce(torch.ones(1)))
    assert [one.sequence for one in seen] == [1]
    record = my_record()
    assert record.groups[-1].generation == 1


@pytest.mark.needs_torch("2.14", "groups that change their size")
@native
def test_a_regrouped_group_is_another_generation(ranks: Ranks) -> None:
    ranks.run(check_regroup, world=2, fresh=True)


@contextlib.contextmanager
def little_memory_for(pid: int) -> Iterator[None]:
    """What the process takes from now on is limited: the kernel kills it for more. Skips where that is not allowed."""
    parent = next((path for path in (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")) if path.is_dir()), None)
    is_old = parent is not None and parent.name == "memory"
    group = Path(parent or "/", f"pycomms-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"a memory cgroup cannot be made here: {error}")
    try:
        try:
            Path(group, "memory.limit_in_bytes" if is_old else "memory.max").write_text(str(64 << 20))
            if not is_old:
                Path(group, "memory.swap.max").write_text("0")
            Path(group, "cgroup.procs").write_text(str(pid))
        except OSError as error:
            pytest.skip(f"a memory cgroup cannot be used here: {error}")
        yield
    finally:
        deadline = time.monotonic() + 30
        while group.is_dir() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):  # until the kernel has buried the process
                group.rmdir()


def check_eating(rank: int, world: int) -> None:
    tensor = torch.ones(4)
    dist.barrier()
    if rank == 1:
        context().tell((os.getpid(), str(flight_recorder.ring_path())))
        context().hear()
    eaten = []
    for _ in range(200):
        dist.all_reduce(tensor)
        if rank == 1:
            eaten.append(torch.ones(1 << 20))


@native
def test_the_record_of_a_rank_that_ran_out_of_memory(ranks: Ranks) -> None:
    with ranks.start(check_eating, world=2, fresh=True, timeout=60.0) as run:
        pid, path = run.told(1)
        with little_memory_for(pid):
            run.send(1, "eat")
            outcome = run.answer(1, 40.0)
            assert isinstance(outcome, Died), outcome
            assert outcome.by_signal == signal.SIGKILL
            record = _ring.read(path)
    entries = seen_in(record)
    assert not record.alive
    assert record.stop_reason == ""
    assert record.warnings == ()
    assert 2 <= entries[-1].sequence < 201
    assert [one.sequence for one in entries] == list(range(1, entries[-1].sequence + 1))
