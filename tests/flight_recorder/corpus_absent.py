"""Jobs in which somebody is not there: skipped an operation, died, was refused; and records that are damaged."""

from __future__ import annotations

from dataclasses import replace

from pycomms.flight_recorder._model import Record, State
from pycomms.flight_recorder.analysis import Verdict
from tests.flight_recorder.corpus import (
    AG,
    AR,
    BC,
    case,
    cut_rows,
    keep_last,
    loop,
    untimed,
    without,
    world,
)
from tests.flight_recorder.simulator import Step, run

LAST = Step(kind="all_reduce", reduction="sum", line=99)


# Somebody is not there.


@case(Verdict.MISSING_RANK, (5,), "default_pg", 21, line=99)
def last_collective_skipped_by_one_rank() -> list[Record]:
    return run(world(8), lambda rank: [*loop(10, AR, AG), *([] if rank == 5 else [LAST])]).records()


@case(Verdict.MISSING_RANK, (5,), "default_pg", 21, line=99)
def last_collective_skipped_and_no_times() -> list[Record]:
    return untimed(run(world(8), lambda rank: [*loop(10, AR, AG), *([] if rank == 5 else [LAST])]).records())


@case(Verdict.MISSING_RANK, (2, 5), "default_pg", 5)
def last_collective_skipped_by_two_ranks() -> list[Record]:
    return run(world(8), lambda rank: [*loop(4, AR), *([] if rank in (2, 5) else [LAST])]).records()


@case(Verdict.MISSING_RANK, (3,), "default_pg", 6, line=99, formats=("pickle",))
def one_skipped_and_all_continued() -> list[Record]:
    """What it skipped is followed by the same operation: only the lines of the program show where."""
    after = [replace(AR, line=100 + place) for place in range(5)]
    return run(world(4), lambda rank: [*loop(5, AR), *([] if rank == 3 else [LAST]), *after]).records()


@case(Verdict.MISSING_RANK, (3,), "default_pg", 6)
def one_skipped_and_the_rest_does_not_match() -> list[Record]:
    fast = replace(AG, asynchronous=True)
    after = [replace(fast, count=size) for size in (8, 9, 10)]
    odd = replace(LAST, asynchronous=True)
    return run(world(4), lambda rank: [*loop(5, AR), *([] if rank == 3 else [odd]), *after]).records()


@case(Verdict.MISSING_RANK, (2,), "default_pg", 8)
def asynchronous_with_one_rank_issuing_fewer() -> list[Record]:
    fast = replace(AR, asynchronous=True)
    return run(world(4), lambda rank: loop(7 if rank == 2 else 10, fast)).records()


@case(Verdict.MISSING_RANK, (5,), "tp2", 4, line=80)
def tensor_parallel_hang_cascades_to_data_parallel() -> list[Record]:
    groups = world(8, tp0=(0, 1), tp1=(2, 3), tp2=(4, 5), tp3=(6, 7), dp0=(0, 2, 4, 6), dp1=(1, 3, 5, 7))

    def program(rank: int) -> list[Step]:
        tp = Step(kind="all_reduce", group=str(1 + rank // 2), line=80)
        dp = Step(kind="reduce_scatter_single", group=str(5 + rank % 2), line=90)
        return [*loop(3, tp, dp), *([] if rank == 5 else [tp, dp, AR])]

    return run(groups, program).records()


@case(Verdict.MISSING_RANK, (5,), "tp1", 4)
def subgroup_misses_a_rank_and_the_world_stalls() -> list[Record]:
    groups = world(6, tp0=(0, 1, 2), tp1=(3, 4, 5))

    def program(rank: int) -> list[Step]:
        tp = Step(kind="all_reduce", group=str(1 + rank // 3), line=80)
        return [*loop(3, tp, AR), *([] if rank == 5 else [tp, AR])]

    return run(groups, program).records()


@case(Verdict.MISSING_RANK, (5,), "tp1", 4)
def subgroup_skipped_and_the_rank_goes_on_to_the_world() -> list[Record]:
    """A circle: the others of tp1 wait for rank 5 there, and it waits for them in the world."""
    groups = world(6, tp0=(0, 1, 2), tp1=(3, 4, 5))

    def program(rank: int) -> list[Step]:
        tp = Step(kind="all_reduce", group=str(1 + rank // 3), line=80)
        return [*loop(3, tp, AR), *([] if rank == 5 else [tp]), AR]

    return run(groups, program).records()


@case(Verdict.MISSING_RANK, (3,), "default_pg", 21)
def wrapped_ring_and_a_real_hang() -> list[Record]:
    job = run(world(4), lambda rank: [*loop(40, AR, BC), *([] if rank == 3 else [AG])])
    return [replace(keep_last(record, 9), groups=record.groups) for record in _renumbered(job.records(), 60)]


def _renumbered(records: list[Record], by: int) -> list[Record]:
    for record in records:
        record.entries["sequence"] -= by  # so that the expected number differs from the count of kept entries
    return [keep_last(record, 12) for record in records]


@case(Verdict.MISSING_RANK, (0,), "default_pg", 9)
def uneven_wrapped_ring_and_a_hang() -> list[Record]:
    groups = world(4, pair=(0, 1))
    pair = Step(kind="all_reduce", group="1", line=12)

    def program(rank: int) -> list[Step]:
        body = loop(8, AR, *([pair] * 5 if rank < 2 else []))
        return [*body, *([] if rank == 0 else [LAST])]

    return [keep_last(record, 18) for record in run(groups, program).records()]


@case(Verdict.MISSING_RANK, (3,), "default_pg", 11, degraded=True, droppable=False)
def one_dump_missing_others_stuck() -> list[Record]:
    return without(run(world(4), lambda rank: [*loop(10, AR), *([] if rank == 3 else [LAST])]).records(), 3)


@case(Verdict.MISSING_RANK, (2,), "dp", 1)
def group_absent_from_one_configuration_and_a_hang() -> list[Record]:
    groups = world(4, dp=(0, 1, 2, 3))
    step = replace(AR, group="1")
    records = run(groups, lambda rank: [*loop(5, AR), *([] if rank == 2 else [step])]).records()
    return [replace(record, groups=record.groups[:1]) if record.rank == 2 else record for record in records]


@case(Verdict.MISSING_RANK, (2,), "default_pg", 6)
def monitored_barrier_with_an_absent_rank() -> list[Record]:
    step = Step(kind="monitored_barrier", line=91)
    return run(world(4), lambda rank: [*loop(5, AR), *([] if rank == 2 else [step])]).records()


@case(Verdict.MISSING_RANK, (1,), "default_pg", 4, formats=())
def timed_out_and_torn_down() -> list[Record]:
    """After the timeout: the survivors' operations have ended, with an error."""
    records = run(world(4), lambda rank: [*loop(3, AR), *([] if rank == 1 else [LAST])]).records()
    for record in records:
        if record.rank != 1:
            record.entries["state"][-1] = State.TIMED_OUT
    return [replace(record, closed=record.rank != 1, alive=False) for record in records]


@case(Verdict.MISSING_RANK, (1,), "default_pg", 4, formats=())
def rings_of_processes_that_are_gone() -> list[Record]:
    """All were killed while they were stuck: a ring ends with its last entry, however long that took."""
    records = run(world(4), lambda rank: [*loop(3, AR), *([] if rank == 1 else [LAST])]).records()
    return [replace(record, alive=False, taken_ns=int(record.entries["issued_ns"][-1]) + 1000) for record in records]


@case(Verdict.MISSING_RANK, (1,), "default_pg", 4, formats=())
def one_rank_left_early() -> list[Record]:
    records = run(world(4), lambda rank: [*loop(3, AR), *([] if rank == 1 else [LAST])]).records()
    return [replace(record, closed=record.rank == 1, alive=record.rank != 1) for record in records]


# Processes.


@case(Verdict.RANK_DIED, (1,), "default_pg", 6, formats=())
def process_died() -> list[Record]:
    records = run(world(4), lambda rank: loop(5 if rank == 1 else 6, AR)).records()
    return [replace(record, alive=record.rank != 1) for record in records]


@case(Verdict.RANK_DIED, (1,), "default_pg", 6, formats=())
def process_died_inside_an_operation() -> list[Record]:
    """It had issued what the others wait in."""
    groups = world(4, pair=(0, 1))
    records = run(
        groups, lambda rank: [*loop(5, AR), *([Step(kind="all_reduce", group="1")] if rank == 1 else [AR])]
    ).records()
    return [replace(record, alive=record.rank != 1) for record in records]


@case(Verdict.RANK_RESTARTED, (2,), "default_pg", 31)
def restarted_with_its_sequence_back_to_one() -> list[Record]:
    records = run(world(4), lambda rank: loop(30 if rank == 2 else 31, AR)).records()
    fresh = run(world(4), lambda rank: [AR] if rank == 2 else []).records()[2]
    fresh.entries["issued_ns"] += 10_000_000_000
    return [replace(fresh, pid=77, started_ns=fresh.taken_ns) if record.rank == 2 else record for record in records]


@case(Verdict.RANK_RESTARTED, (2,), "default_pg", 31, formats=())
def restarted_with_both_records() -> list[Record]:
    records = run(world(4), lambda rank: loop(30 if rank == 2 else 31, AR)).records()
    fresh = run(world(4), lambda rank: [AR] if rank == 2 else []).records()[2]
    return [*untimed(records), replace(fresh, pid=77, attempt=1, source="later", taken_ns=0)]


@case(Verdict.REJECTED_OP, (3,), "default_pg", 6, formats=())
def rejected_on_one_rank() -> list[Record]:
    refused = replace(LAST, refused="expected a contiguous tensor")
    return run(world(4), lambda rank: [*loop(5, AR), refused if rank == 3 else LAST]).records()


@case(Verdict.SLOW_RANK, (3,), "default_pg", None, formats=())
def one_rank_slow_all_the_time() -> list[Record]:
    return run(world(4), lambda rank: loop(40, replace(AR, think_ns=90_000_000 if rank == 3 else 1_000_000))).records()


# Input that is damaged.


def _skipped(rank_missing: int) -> list[Record]:
    return run(world(6), lambda rank: [*loop(20, AR, AG), *([] if rank == rank_missing else [LAST])]).records()


@case(Verdict.MISSING_RANK, (4,), "default_pg", 41, degraded=True, formats=())
def truncated_victims_10() -> list[Record]:
    return [cut_rows(record, 0.1) if record.rank == 1 else record for record in _skipped(4)]


@case(Verdict.MISSING_RANK, (4,), "default_pg", 41, degraded=True, formats=())
def truncated_victims_50() -> list[Record]:
    return [cut_rows(record, 0.5) if record.rank == 1 else record for record in _skipped(4)]


@case(Verdict.MISSING_RANK, (4,), "default_pg", 41, degraded=True, formats=())
def truncated_victims_90() -> list[Record]:
    return [cut_rows(record, 0.9) if record.rank == 1 else record for record in _skipped(4)]


@case(Verdict.MISSING_RANK, (4,), "default_pg", 41, degraded=True, formats=(), droppable=False)
def truncated_culprit() -> list[Record]:
    return [cut_rows(record, 0.9) if record.rank == 4 else record for record in _skipped(4)]


@case(Verdict.INSUFFICIENT_DATA, degraded=True)
def recorder_empty() -> list[Record]:
    return [replace(record, entries=record.entries[:0]) for record in _skipped(4)]


@case(Verdict.MISSING_RANK, (4,), "default_pg", 41, degraded=True)
def recorder_empty_on_one_victim() -> list[Record]:
    return [replace(record, entries=record.entries[:0]) if record.rank == 0 else record for record in _skipped(4)]


@case(Verdict.MISSING_RANK, (4,), "default_pg", 41)
def mixed_versions() -> list[Record]:
    return [replace(record, version="2.3" if record.rank % 2 else "2.10", writer="nccl") for record in _skipped(4)]


@case(Verdict.MISSING_RANK, (4,), "default_pg", 21)
def unknown_op() -> list[Record]:
    odd = Step(kind="quantum_reduce", line=33)
    return run(world(6), lambda rank: [*loop(20, odd), *([] if rank == 4 else [LAST])]).records()
