"""Looks at a healthy job that runs: one ring after the other is read, and the job goes on in between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder.analysis import Verdict, analyze
from pycomms.flight_recorder.analysis._looks import LATE_NS, LONG_NS
from tests.flight_recorder.corpus import world
from tests.flight_recorder.simulator import Simulation, Step, run

_MS = 1_000_000
_STEPS = [Step(kind="all_reduce"), Step(kind="all_gather_single")]


def _looked_at(job: Simulation, looks_ns: Mapping[int, int]) -> list[Record]:
    return [replace(record, writer="ring", alive=True) for record in job.records(until_ns=looks_ns)]


def _job(late_ns: int) -> Simulation:
    """Of two ranks: before its last operation rank 0 thinks for so long; rank 1 comes at once."""

    def program(rank: int) -> list[Step]:
        return [*_STEPS * 10, Step(kind="all_reduce", line=99, think_ns=late_ns if rank == 0 else _MS), *_STEPS]

    return run(world(2), program)


@pytest.mark.parametrize("between_ms", [0, 1, 50, 300, 900])
def test_a_rank_whose_ring_was_read_first_is_not_missing(between_ms: int) -> None:
    job = _job(late_ns=950 * _MS)
    came = job.issued_ns(1, 20)
    for first in range(0, 900, 90):
        looks = {0: came + first * _MS, 1: came + (first + between_ms) * _MS}
        assert analyze(_looked_at(job, looks)).verdict is Verdict.HEALTHY, looks


def test_a_rank_that_others_wait_for_is_missing_after_a_while() -> None:
    job = _job(late_ns=60 * LATE_NS)
    came = job.issued_ns(1, 20)
    found = analyze(_looked_at(job, {0: came + 2 * LATE_NS, 1: came + 2 * LATE_NS}))
    assert (found.verdict, found.root_ranks) == (Verdict.MISSING_RANK, (0,))


def test_a_ring_that_went_with_its_process_is_no_fault_at_once() -> None:
    job = _job(late_ns=60 * LATE_NS)
    came = job.issued_ns(1, 20)
    [_, waiting] = _looked_at(job, dict.fromkeys(range(2), came + 500 * _MS))
    assert analyze([waiting]).verdict is Verdict.HEALTHY
    [_, waiting] = _looked_at(job, dict.fromkeys(range(2), came + 2 * LATE_NS))
    assert analyze([waiting]).verdict is Verdict.MISSING_RANK


def test_an_operation_that_all_have_come_to_may_be_large() -> None:
    job = run(world(2), lambda _: [*_STEPS, Step(kind="all_reduce", hangs=True)])
    came = job.issued_ns(1, 2)
    for waited, verdict in ((LONG_NS // 2, Verdict.HEALTHY), (2 * LONG_NS, Verdict.ALL_JOINED_NOT_DONE)):
        assert analyze(_looked_at(job, dict.fromkeys(range(2), came + waited))).verdict is verdict


def test_who_was_looked_at_before_the_end_is_not_stuck_in_it() -> None:
    job = _job(late_ns=900 * _MS)
    came = job.issued_ns(0, 20)
    looks = {1: came - 100 * _MS, 0: came + 300 * _MS}  # rank 1 waits for 800 ms; then both go on
    assert analyze(_looked_at(job, looks)).verdict is Verdict.HEALTHY
