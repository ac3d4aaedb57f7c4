"""Jobs whose messages went wrong."""

from __future__ import annotations

from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder.analysis import Verdict
from tests.flight_recorder.corpus import AR, case, keep_last, loop, world
from tests.flight_recorder.corpus_healthy import one_f_one_b
from tests.flight_recorder.simulator import Step, run

_COUNT = Step(kind="send").count


def _send(peer: int, *, tag: int = 0, count: int = _COUNT) -> Step:
    return Step(kind="send", peer=peer, line=50, tag=tag, count=count)


def _recv(peer: int, *, tag: int = 0) -> Step:
    return Step(kind="recv", peer=peer, line=51, tag=tag)


def _between(first: int, last: int, sends: list[Step], receives: list[Step]) -> list[Record]:
    """Three good messages between two ranks of four, then these."""
    ends = {first: [*loop(3, _send(last)), *sends], last: [*loop(3, _recv(first)), *receives]}
    return run(world(4), lambda rank: [*loop(3, AR), *ends.get(rank, [])]).records()


@case(Verdict.P2P_UNMATCHED, (1,), "default_pg", 4)
def receive_without_send() -> list[Record]:
    return _between(1, 2, [], [_recv(1)])


@case(Verdict.P2P_UNMATCHED, (2,), "default_pg", 4)
def send_without_receive() -> list[Record]:
    return _between(1, 2, [_send(2)], [])


@case(Verdict.P2P_DEADLOCK, (0, 3), "default_pg", None, droppable=False)
def mutual_receive() -> list[Record]:
    def program(rank: int) -> list[Step]:
        other = {0: 3, 3: 0}.get(rank)
        return [*loop(3, AR), *([] if other is None else [_recv(other), _send(other)])]

    return run(world(4), program).records()


@case(Verdict.P2P_DEADLOCK, (0, 1, 2, 3), "default_pg", None, droppable=False)
def ring_of_blocking_sends() -> list[Record]:
    return run(world(4), lambda rank: [*loop(3, AR), _send((rank + 1) % 4), _recv((rank - 1) % 4)]).records()


@case(Verdict.P2P_TAG_MISMATCH, (1, 2), "default_pg", 1, droppable=False)
def tag_mismatch() -> list[Record]:
    return _between(1, 2, [_send(2, tag=7)], [_recv(1, tag=8)])


@case(Verdict.P2P_SIZE_MISMATCH, (1, 2), "default_pg", 4, droppable=False)
def size_mismatch() -> list[Record]:
    return _between(1, 2, [_send(2, count=32)], [_recv(1)])


@case(Verdict.P2P_UNMATCHED, (1,), "default_pg", 9)
def pipeline_stage_sends_one_batch_too_few() -> list[Record]:
    """Stage 2 waits for a batch that stage 1 never sends, stage 3 for stage 2."""

    def program(rank: int) -> list[Step]:
        steps = [step for step in one_f_one_b(rank, 4, 8) if step.kind != "all_reduce"]
        more = {2: [_recv(1), _send(3)], 3: [_recv(2)]}
        return [*steps, *more.get(rank, [])]

    return run(world(4), program).records()


@case(Verdict.P2P_UNMATCHED, (1,), "default_pg", None)
def receive_without_send_in_wrapped_rings() -> list[Record]:
    ends = {1: loop(30, _send(2)), 2: [*loop(30, _recv(1)), _recv(1)]}
    records = run(world(4), lambda rank: [*loop(3, AR), *ends.get(rank, [])]).records()
    return [keep_last(record, 10 + record.rank) for record in records]


@case(Verdict.P2P_UNMATCHED, (1,), "default_pg", 1)
def missing_send_stalls_the_world() -> list[Record]:
    """Rank 2 never comes to the last collective, because rank 1 went there without sending to it."""

    def program(rank: int) -> list[Step]:
        return [*loop(3, AR), *([_recv(1)] if rank == 2 else []), *([] if rank == 1 else [AR])]

    return run(world(4), program).records()


@case(Verdict.MISSING_RANK, (3,), "default_pg", 4)
def pipeline_waits_for_a_stage_that_skipped_a_collective() -> list[Record]:
    def program(rank: int) -> list[Step]:
        first = [] if rank == 3 else [AR]
        return [
            *loop(3, AR),
            *first,
            *([_recv(rank - 1)] if rank in (1, 2) else []),
            *([_send(1)] if rank == 0 else []),
        ]

    return run(world(4), program).records()
