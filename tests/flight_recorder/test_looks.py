"""Looks at a healthy job that runs: one ring after the other is read, and the job goes on in between."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder._report import to_json, to_text
from pycomms.flight_recorder.analysis import Verdict, analyze
from pycomms.flight_recorder.analysis._looks import LATE_NS, LONG_NS, PATIENCE, USUAL_TIMEOUT_NS
from tests.flight_recorder.corpus import world
from tests.flight_recorder.simulator import Simulation, Step, run

_MS = 1_000_000
_TIMEOUT_NS = 600_000 * _MS  # as the simulator writes it
_TOO_LONG_NS = _TIMEOUT_NS // PATIENCE + LATE_NS
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


def _waited(ns: int, **fields: Any) -> list[Record]:
    """Rank 1 has waited for rank 0 for so long; fields: of the record of rank 0."""
    job = _job(late_ns=10 * _TOO_LONG_NS)
    [absent, waiting] = _looked_at(job, dict.fromkeys(range(2), job.issued_ns(1, 20) + ns))
    return [replace(absent, **fields), waiting]


def test_a_rank_that_others_wait_for_is_missing_after_a_part_of_the_timeout() -> None:
    found = analyze(_waited(_TOO_LONG_NS))
    assert (found.verdict, found.root_ranks, found.suspicions) == (Verdict.MISSING_RANK, (0,), ())


def test_before_that_it_is_told_but_no_fault() -> None:
    found = analyze(_waited(20 * LATE_NS))
    assert found.verdict is Verdict.HEALTHY
    [suspicion] = found.suspicions
    assert (suspicion.finding.verdict, suspicion.finding.root_ranks) == (Verdict.MISSING_RANK, (0,))
    assert (suspicion.lasted_ns, suspicion.fault_ns) == (20 * LATE_NS, _TIMEOUT_NS // PATIENCE)
    assert "if it lasts: MISSING_RANK root ranks [0]" in to_text(found)
    assert "so far: 20 s" in to_text(found)
    [told] = json.loads(to_json(found))["suspicions"]
    assert (told["root_ranks"], told["lasted_s"], told["fault_after_s"]) == ([0], 20.0, 60.0)


def test_a_timeout_that_is_not_recorded_is_the_usual_one() -> None:
    for waited, verdict in ((20 * LATE_NS, Verdict.HEALTHY), (_TOO_LONG_NS, Verdict.MISSING_RANK)):
        records = _waited(waited)
        for record in records:
            record.entries["timeout_ms"] = 0
        assert USUAL_TIMEOUT_NS == _TIMEOUT_NS
        assert analyze(records).verdict is verdict


def test_nothing_is_told_of_a_rank_that_is_hardly_late() -> None:
    assert analyze(_waited(LATE_NS // 2)).suspicions == ()


def test_who_knows_better_than_the_timeout_says_so() -> None:
    records = _waited(20 * LATE_NS)
    assert analyze(records, patience_ns=19 * LATE_NS).verdict is Verdict.MISSING_RANK
    assert analyze(_waited(2 * _TOO_LONG_NS), patience_ns=3 * _TOO_LONG_NS).verdict is Verdict.HEALTHY


def test_a_stopped_process_is_a_fault_at_once() -> None:
    found = analyze(_waited(LATE_NS // 2, stopped=True))
    assert (found.verdict, found.root_ranks) == (Verdict.MISSING_RANK, (0,))
    assert "the process of rank 0 is stopped" in found.findings[0].what
    assert "kill -CONT" in found.findings[0].next_step


def test_a_process_that_is_gone_is_a_fault_at_once() -> None:
    found = analyze(_waited(LATE_NS // 2, alive=False))
    assert (found.verdict, found.root_ranks) == (Verdict.RANK_DIED, (0,))


def test_a_process_that_was_stopped_in_an_operation_is_named() -> None:
    job = run(world(3), lambda _: [*_STEPS, Step(kind="all_reduce", hangs=True)])
    records = _looked_at(job, dict.fromkeys(range(3), job.issued_ns(1, 2) + LATE_NS // 2))
    found = analyze([replace(record, stopped=record.rank == 2) for record in records])
    assert (found.verdict, found.root_ranks) == (Verdict.ALL_JOINED_NOT_DONE, (2,))


def test_copies_of_the_rings_of_a_running_job_prove_as_little() -> None:
    copies = [replace(record, writer="pycomms") for record in _waited(20 * LATE_NS)]
    assert analyze(copies).verdict is Verdict.HEALTHY
    # Later, when the job has ended, they say the same.
    assert analyze([replace(record, alive=False) for record in copies]).verdict is Verdict.HEALTHY


def test_dumps_that_something_happened_for_need_no_patience() -> None:
    dumps = [replace(record, writer="pycomms", stop_reason="SIGUSR2") for record in _waited(20 * LATE_NS)]
    assert analyze(dumps).verdict is Verdict.MISSING_RANK


def test_who_waits_behind_a_fault_is_its_victim_however_young() -> None:
    def program(rank: int) -> list[Step]:
        last = {0: [], 1: [Step(kind="all_reduce", group="1")], 2: [Step(kind="all_reduce", group="2")]}
        pause = Step(kind="barrier", group="2", think_ns=2 * _TOO_LONG_NS)
        return [*_STEPS, *([] if rank == 0 else last[rank] if rank == 1 else [pause, *last[2]])]

    job = run(world(3, a=(0, 1), b=(1, 2)), program)
    now = job.issued_ns(2, -1) + 2 * LATE_NS
    found = analyze(_looked_at(job, dict.fromkeys(range(3), now)))
    assert (found.verdict, found.root_ranks) == (Verdict.MISSING_RANK, (0,))
    assert found.findings[0].victim_ranks == (1, 2)


def test_a_ring_that_went_with_its_process_is_no_fault_at_once() -> None:
    [_, waiting] = _waited(500 * _MS)
    assert analyze([waiting]).verdict is Verdict.HEALTHY
    [_, waiting] = _waited(_TOO_LONG_NS)
    assert analyze([waiting]).verdict is Verdict.MISSING_RANK


def test_an_operation_that_all_have_come_to_may_be_large() -> None:
    job = run(world(2), lambda _: [*_STEPS, Step(kind="all_reduce", hangs=True)])
    came = job.issued_ns(1, 2)
    for waited, verdict, told in (
        (LONG_NS // 2, Verdict.HEALTHY, 0),
        (2 * LONG_NS, Verdict.HEALTHY, 1),
        (_TOO_LONG_NS, Verdict.ALL_JOINED_NOT_DONE, 0),
    ):
        found = analyze(_looked_at(job, dict.fromkeys(range(2), came + waited)))
        assert (found.verdict, len(found.suspicions)) == (verdict, told)


def test_who_was_looked_at_before_the_end_is_not_stuck_in_it() -> None:
    job = _job(late_ns=900 * _MS)
    came = job.issued_ns(0, 20)
    looks = {1: came - 100 * _MS, 0: came + 300 * _MS}  # rank 1 waits for 800 ms; then both go on
    assert analyze(_looked_at(job, looks)).verdict is Verdict.HEALTHY
