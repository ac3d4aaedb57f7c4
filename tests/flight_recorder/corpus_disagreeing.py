"""Jobs in which everybody is there: ranks disagree, wait in a circle, or something below them fails."""

from __future__ import annotations

from dataclasses import replace

from pycomms.flight_recorder._model import Record, State
from pycomms.flight_recorder.analysis import Verdict
from tests.flight_recorder.corpus import (
    AG,
    AR,
    BC,
    case,
    loop,
    set_last,
    world,
)
from tests.flight_recorder.simulator import Step, run

LAST = Step(kind="all_reduce", reduction="sum", line=99)


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
