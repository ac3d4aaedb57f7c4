"""Jobs with nothing wrong: the analyzer must not accuse anyone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pycomms.flight_recorder._model import Flag, Record, State
from tests.flight_recorder.corpus import AG, AR, BC, RS, case, keep_last, loop, untimed, without, world
from tests.flight_recorder.simulator import Step, run


@case()
def plain() -> list[Record]:
    return run(world(8), lambda rank: loop(10, AR, AG, RS, BC)).records()


@case()
def straggler_that_finishes() -> list[Record]:
    slow = replace(AR, think_ns=4_000_000_000)
    return run(world(4), lambda rank: [*loop(9, AR), slow if rank == 2 else AR, *loop(3, AR)]).records()


@case()
def dumps_one_op_apart() -> list[Record]:
    job = run(world(4), lambda rank: loop(10, AR, AG))
    return untimed(job.records(until_ns={2: job.issued_ns(2, -2) + 60_000, 3: job.issued_ns(3, -1) - 1}))


@case(formats=())
def dumped_in_full_flight() -> list[Record]:
    """Some ranks have just issued what others have not yet: nothing has waited for long."""
    job = run(world(4), lambda rank: [*loop(10, AR), replace(AR, think_ns=(rank + 1) * 10_000_000)])
    end = job.issued_ns(1, -1) + 1_000_000
    return job.records(until_ns=dict.fromkeys(range(4), end))


@case()
def wrapped_with_uneven_counts() -> list[Record]:
    groups = world(4, pair=(0, 1))
    pair = Step(kind="all_reduce", group="1", reduction="sum", line=12)
    job = run(groups, lambda rank: loop(40, AR, pair, pair, AG) if rank < 2 else loop(40, AR, AG))
    return [keep_last(record, 50) for record in job.records()]


@case()
def wrapped_at_different_sizes() -> list[Record]:
    job = run(world(4), lambda rank: loop(40, AR, AG, BC))
    return [keep_last(record, 20 + 9 * record.rank) for record in job.records()]


def one_f_one_b(rank: int, size: int, batches: int) -> list[Step]:
    """A pipeline stage: warm-up, one forward and one backward in turn, then the rest of the backwards."""
    forward = [
        *([Step(kind="recv", peer=rank - 1, line=50)] if rank else []),
        *([Step(kind="send", peer=rank + 1, line=51, asynchronous=True)] if rank < size - 1 else []),
    ]
    backward = [
        *([Step(kind="recv", peer=rank + 1, line=52)] if rank < size - 1 else []),
        *([Step(kind="send", peer=rank - 1, line=53, asynchronous=True)] if rank else []),
    ]
    warm = min(size - rank - 1, batches)
    return [*loop(warm, *forward), *loop(batches - warm, *forward, *backward), *loop(warm, *backward), AR]


@case()
def pipeline_1f1b() -> list[Record]:
    return run(world(4), lambda rank: one_f_one_b(rank, 4, 8)).records()


@case()
def pipeline_1f1b_wrapped() -> list[Record]:
    return [keep_last(record, 12) for record in run(world(4), lambda rank: one_f_one_b(rank, 4, 16)).records()]


@case()
def batch_isend_irecv_ring_in_any_order() -> list[Record]:
    def program(rank: int) -> list[Step]:
        send = Step(kind="send", peer=(rank + 1) % 4, line=60)
        receive = Step(kind="recv", peer=(rank - 1) % 4, line=61)
        first, second = (send, receive) if rank % 2 else (receive, send)
        return loop(6, replace(first, together=True), second, AR)

    return run(world(4), program).records()


@case()
def uneven_all_to_all() -> list[Record]:
    """Rank r sends r + 1 rows to each: all receive 1, 2, 3 and 4."""

    def program(rank: int) -> list[Step]:
        sent, received = (rank + 1,) * 4, (1, 2, 3, 4)
        step = Step(
            kind="all_to_all_single",
            line=70,
            inputs=((sum(sent), 3),),
            outputs=((sum(received), 3),),
            input_splits=sent,
            output_splits=received,
        )
        return loop(3, step, AR)

    return run(world(4), program).records()


@case()
def uneven_all_to_all_without_recorded_splits() -> list[Record]:
    def program(rank: int) -> list[Step]:
        return loop(3, Step(kind="all_to_all_single", inputs=((4 * (rank + 1),),), outputs=((10,),), line=70))

    return run(world(4), program).records()


@case()
def uneven_all_gather() -> list[Record]:
    outputs = ((1, 5), (2, 5), (3, 5), (4, 5))
    return run(
        world(4), lambda rank: loop(3, Step(kind="all_gather", inputs=(outputs[rank],), outputs=outputs, line=71), AR)
    ).records()


@case()
def gather_and_scatter_with_a_root() -> list[Record]:
    def program(rank: int) -> list[Step]:
        many = ((16,),) * 4
        gather = Step(kind="gather", root=1, outputs=many if rank == 1 else (), line=72)
        scatter = Step(kind="scatter", root=2, inputs=many if rank == 2 else (), line=73)
        return loop(3, gather, scatter, replace(BC, root=3), Step(kind="barrier", line=74))

    return run(world(4), program).records()


@case()
def coalesced_collectives() -> list[Record]:
    parts = [replace(AG, coalesced_with_next=True, asynchronous=True, count=size) for size in (4, 8, 12)]
    closing = Step(kind="all_gather_coalesced", line=20, inputs=(), outputs=())
    return run(world(4), lambda rank: loop(5, *parts, closing, AR)).records()


@case()
def asynchronous_collectives_awaited_late() -> list[Record]:
    fast = replace(AR, asynchronous=True)
    return run(world(4), lambda rank: loop(5, fast, fast, replace(AG, asynchronous=True), AR)).records()


def late(record: Record, first: int, *, marked: bool) -> Record:
    """As a recorder attached after that many operations would have numbered the rest."""
    entries = record.entries[first:].copy()
    entries["sequence"] -= first
    entries["id"] -= first
    if marked:
        entries["flags"] |= int(Flag.LATE)
    return replace(record, entries=entries)


@case()
def recorder_attached_late_on_one_rank() -> list[Record]:
    records = run(world(4), lambda rank: loop(12, AR, AG, BC)).records()
    return [late(record, 17, marked=True) if record.rank == 1 else record for record in records]


@case()
def recorder_attached_late_unmarked() -> list[Record]:
    records = run(world(4), lambda rank: loop(12, AR, AG, BC)).records()
    return [late(record, 17, marked=False) if record.rank == 1 else record for record in records]


@case(degraded=True)
def one_dump_missing_others_clean() -> list[Record]:
    return without(run(world(4), lambda rank: loop(10, AR, AG)).records(), 3)


@case()
def group_absent_from_one_configuration() -> list[Record]:
    groups = world(4, dp=(0, 1, 2, 3))
    records = run(groups, lambda rank: loop(5, AR, replace(AR, group="1"))).records()
    unlisted = tuple(replace(group, ranks=()) if group.name == "1" else group for group in records[2].groups)
    return [replace(record, groups=unlisted) if record.rank == 2 else record for record in records]


@case()
def groups_created_and_never_used() -> list[Record]:
    return run(world(4, idle=(0, 1), quiet=(2, 3)), lambda rank: loop(4, AR)).records()


@case()
def same_group_name_for_disjoint_ranks() -> list[Record]:
    """split_group gives the same name to groups of different ranks."""
    groups = world(4, tp=(0, 1), other=(2, 3))
    step = {True: Step(kind="all_reduce", group="1"), False: Step(kind="all_gather_single", group="2", count=4)}
    records = run(groups, lambda rank: loop(4 + rank // 2, step[rank < 2])).records()
    return [
        replace(
            record,
            groups=tuple(
                replace(group, name="7", description="mesh") if group.name != "0" else group for group in record.groups
            ),
        )
        for record in records
    ]


@case()
def shapes_differ_and_sizes_agree() -> list[Record]:
    return run(
        world(4),
        lambda rank: loop(3, Step(kind="all_reduce", inputs=((4, 4) if rank else (16,),), outputs=((16,),), line=5)),
    ).records()


@case(formats=())
def regrouped_after_a_failure() -> list[Record]:
    """Rank 3 is gone, the others went on in the next generation of the world: what they left behind is no fault."""
    before = run(world(4), lambda rank: loop(5 if rank < 3 else 4, AR)).records()[:3]
    after = run(world(3), lambda rank: loop(6, AG)).records()
    joined = []
    for old, new in zip(before, after, strict=True):
        entries = new.entries.copy()
        entries["group"] += 1
        entries["signature"] += len(old.signatures)
        entries["site"] = 0
        past = old.entries.copy()
        past["state"][-1] = State.FAILED
        joined.append(
            replace(
                old,
                groups=(*old.groups, replace(new.groups[0], generation=1)),
                signatures=old.signatures + new.signatures,
                entries=np.concatenate([past, entries]),
                world_size=3,
            )
        )
    return joined


@case(formats=())
def rejected_and_caught() -> list[Record]:
    """One rank tried something that was refused, caught the exception and went on."""
    refused = Step(kind="all_reduce", refused="dtype not supported", line=9)
    return run(world(4), lambda rank: [*loop(3, AR), *([refused] if rank == 1 else []), *loop(3, AR)]).records()
