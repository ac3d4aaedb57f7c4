"""Jobs with collectives that went wrong, and who is to blame."""

from __future__ import annotations

from dataclasses import replace

from pycomms.flight_recorder._model import Record, State
from pycomms.flight_recorder.analysis import Verdict
from tests.flight_recorder.corpus import (
    AG,
    AR,
    BC,
    RS,
    all_in,
    case,
    cut_rows,
    keep_last,
    loop,
    set_last,
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


# Everybody is there and does something else.


@case(Verdict.OP_MISMATCH, (4,), "default_pg", 11, line=20)
def one_rank_issues_another_op() -> list[Record]:
    return run(world(8), lambda rank: [*loop(10, AR), AG if rank == 4 else LAST]).records()


@case(Verdict.OP_MISMATCH, (), "default_pg", 11)
def two_ranks_issue_different_ops() -> list[Record]:
    return run(world(2), lambda rank: [*loop(10, AR), AG if rank else LAST]).records()


@case(Verdict.OP_MISMATCH, (), "default_pg", 4, droppable=False)
def half_against_half() -> list[Record]:
    return run(world(4), lambda rank: [*loop(3, AR), AG if rank % 2 else LAST]).records()


@case(Verdict.OP_MISMATCH, (1, 6), "default_pg", 4)
def two_of_eight_differ() -> list[Record]:
    return run(world(8), lambda rank: [*loop(3, AR), BC if rank in (1, 6) else LAST]).records()


@case(Verdict.SIZE_MISMATCH, (3,), "default_pg", 6, line=99)
def wrong_size() -> list[Record]:
    return run(world(8), lambda rank: [*loop(5, AR), replace(LAST, count=17 if rank == 3 else 16)]).records()


@case(Verdict.SIZE_MISMATCH, (3,), "dp", 2)
def wrong_size_in_a_subgroup_stalls_the_world() -> list[Record]:
    groups = world(8, dp=(0, 1, 2, 3))

    def program(rank: int) -> list[Step]:
        dp = Step(kind="all_gather_single", group="1", line=31)
        return [
            *loop(1, *([dp] if rank < 4 else []), AR),
            *([replace(dp, count=9 if rank == 3 else 16)] if rank < 4 else []),
            AR,
        ]

    return run(groups, program).records()


@case(Verdict.SIZE_MISMATCH, (2,), "default_pg", 3)
def uneven_all_gather_with_one_wrong_input() -> list[Record]:
    outputs = ((1, 5), (2, 5), (3, 5), (4, 5))

    def program(rank: int) -> list[Step]:
        given = (4, 5) if rank == 2 else outputs[rank]
        return [*loop(2, AR), replace(Step(kind="all_gather", line=71, hangs=True), inputs=(given,), outputs=outputs)]

    return run(world(4), program).records()


@case(Verdict.DTYPE_MISMATCH, (0,), "default_pg", 6)
def wrong_dtype_of_equal_bytes() -> list[Record]:
    wrong = replace(LAST, dtype="Double", count=8)
    return run(world(4), lambda rank: [*loop(5, AR), wrong if rank == 0 else LAST, AR]).records()


@case(Verdict.DTYPE_MISMATCH, (1,), "default_pg", 6)
def wrong_dtype_that_hangs() -> list[Record]:
    return run(world(4), lambda rank: [*loop(5, AR), replace(LAST, dtype="Half") if rank == 1 else LAST, AR]).records()


@case(Verdict.REDOP_MISMATCH, (2,), "default_pg", 6)
def wrong_reduction() -> list[Record]:
    return run(
        world(4), lambda rank: [*loop(5, AR), replace(LAST, reduction="max") if rank == 2 else LAST, *loop(3, AG)]
    ).records()


@case(Verdict.ROOT_MISMATCH, (3,), "default_pg", 6)
def wrong_root() -> list[Record]:
    return run(world(4), lambda rank: [*loop(5, AR), replace(BC, root=1) if rank == 3 else BC]).records()


@case(Verdict.SPLIT_MISMATCH, (1,), "default_pg", 3)
def inconsistent_split_matrix() -> list[Record]:
    def program(rank: int) -> list[Step]:
        sent = (4, 4, 2, 2) if rank == 1 else (2, 2, 2, 2)
        received = (2, 4, 2, 2) if rank == 9 else (2, 2, 2, 2)
        step = Step(
            kind="all_to_all_single",
            line=70,
            inputs=((sum(sent), 4),),
            outputs=((sum(received), 4),),
            input_splits=sent,
            output_splits=received,
            hangs=True,
        )
        return [*loop(2, AR), step]

    return run(world(4), program).records()


@case(Verdict.SPLIT_MISMATCH, (), "default_pg", 3, droppable=False)
def one_pair_disagrees_about_its_split() -> list[Record]:
    def program(rank: int) -> list[Step]:
        sent = (2, 3, 2, 2) if rank == 0 else (2, 2, 2, 2)
        step = Step(
            kind="all_to_all_single",
            inputs=((sum(sent), 4),),
            outputs=((8, 4),),
            input_splits=sent,
            output_splits=(2,) * 4,
            hangs=True,
        )
        return [*loop(2, AR), step]

    return run(world(4), program).records()


@case(Verdict.ORDER_SWAP, (6,), "default_pg", 6)
def two_collectives_swapped_on_one_rank() -> list[Record]:
    one, other = replace(LAST, asynchronous=True), replace(AG, asynchronous=True)
    return run(world(8), lambda rank: [*loop(5, AR), *([other, one] if rank == 6 else [one, other]), AR]).records()


# Circles.


@case(Verdict.ORDER_DEADLOCK, (0, 1), None, None, droppable=False)
def two_groups_in_opposite_order() -> list[Record]:
    groups = world(2, a=(0, 1), b=(0, 1))
    a, b = Step(kind="all_reduce", group="1", line=61), Step(kind="all_reduce", group="2", line=62)
    return run(groups, lambda rank: [*loop(3, AR), *((b, a) if rank else (a, b))]).records()


@case(Verdict.ORDER_DEADLOCK, (2,), None, None)
def two_groups_in_opposite_order_on_one_of_four() -> list[Record]:
    groups = world(4, a=(0, 1, 2, 3), b=(0, 1, 2, 3))
    a, b = Step(kind="all_reduce", group="1", line=61), Step(kind="all_reduce", group="2", line=62)
    return run(groups, lambda rank: [*loop(3, AR), *((b, a) if rank == 2 else (a, b))]).records()


@case(Verdict.ORDER_DEADLOCK, (0, 1, 2), None, None, droppable=False)
def circle_over_three_groups() -> list[Record]:
    groups = world(3, ab=(0, 1), bc=(1, 2), ca=(0, 2))
    steps = {name: Step(kind="all_reduce", group=name, line=60 + int(name)) for name in ("1", "2", "3")}
    order = {0: ("1", "3"), 1: ("2", "1"), 2: ("3", "2")}
    return run(groups, lambda rank: [*loop(3, AR), *(steps[name] for name in order[rank])]).records()


# The program is right and something below it is not.


@case(Verdict.ALL_JOINED_NOT_DONE, (), "default_pg", 11, droppable=False)
def all_issued_and_none_completed() -> list[Record]:
    return run(world(8), lambda rank: [*loop(10, AR), replace(LAST, hangs=True)]).records()


@case(Verdict.DEVICE_QUEUE_BLOCKED, (6,), "default_pg", 11)
def seven_started_and_one_only_scheduled() -> list[Record]:
    records = run(world(8), lambda rank: [*loop(10, AR), replace(LAST, hangs=True)]).records()
    return set_last(records, 6, state=State.ISSUED, started_ns=0)


@case(Verdict.COMPLETION_STUCK, (2,), "default_pg", 11)
def seven_completed_and_one_not() -> list[Record]:
    records = run(world(8), lambda rank: [*loop(10, AR), LAST]).records()
    return set_last(records, 2, state=State.RUNNING, ended_ns=0)


@case(Verdict.COMPLETION_STUCK, (2,), "default_pg", 11)
def seven_completed_and_went_on() -> list[Record]:
    records = run(world(8), lambda rank: [*loop(10, AR), LAST, *([] if rank == 2 else [AR])]).records()
    return set_last(records, 2, state=State.RUNNING, ended_ns=0)


@case(Verdict.ALL_JOINED_NOT_DONE, (), "dp", 3, droppable=False)
def queued_behind_a_collective_of_another_group() -> list[Record]:
    """The world waits because the queues of half its ranks are filled by an operation that the network lost."""
    groups = world(4, dp=(0, 1))
    dp = Step(kind="all_gather_single", group="1", asynchronous=True)
    records = run(
        groups,
        lambda rank: [
            *loop(2, *([dp] if rank < 2 else []), AR),
            *([replace(dp, hangs=True)] if rank < 2 else []),
            replace(AR, hangs=True),
        ],
    ).records()
    for rank in (0, 1):
        records = set_last(records, rank, state=State.ISSUED, started_ns=0)
    return records


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


__all__ = ["RS", "all_in"]
