"""Records of several attempts of a job in one folder: what is said is about the newest."""

from __future__ import annotations

import json
from dataclasses import replace

from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder._report import to_json, to_text
from pycomms.flight_recorder.analysis import Verdict, analyze

from ._jobs import MS, healthy, missing_rank


def _attempt(records: list[Record], number: int, began_ms: int) -> list[Record]:
    shift = began_ms * MS
    found = []
    for record in records:
        entries = record.entries.copy()
        for name in ("issued_ns", "started_ns", "ended_ns"):
            entries[name][entries[name] != 0] += shift
        found.append(
            replace(
                record,
                entries=entries,
                attempt=number,
                pid=record.pid + 100 * number,
                started_ns=int(entries["issued_ns"].min()),
                taken_ns=record.taken_ns + shift,
                alive=False,
                closed=False,
                stop_reason="signal 15",
            )
        )
    return found


_LATER = 3_600_000


def test_a_fault_of_the_attempt_before_is_none_of_this_one() -> None:
    before = _attempt(missing_rank(), 0, 0)
    now = _attempt(healthy(), 1, _LATER)
    found = analyze([*before[: len(now)], *now])
    assert found.verdict is Verdict.HEALTHY
    assert any("attempt 1 of the job" in text and "attempt 0" in text for text in found.warnings)


def test_a_fault_of_this_attempt_is_not_hidden_by_the_one_before() -> None:
    before = _attempt(healthy(), 0, 0)
    now = _attempt(missing_rank(), 1, _LATER)
    alone, both = analyze(now), analyze([*before, *now])
    assert (both.verdict, both.root_ranks) == (alone.verdict, alone.root_ranks)
    assert both.verdict is Verdict.MISSING_RANK


def test_a_rank_that_did_not_come_to_this_attempt_is_judged_by_no_record_at_all() -> None:
    before = _attempt(missing_rank(), 0, 0)
    now = _attempt(missing_rank(), 1, _LATER)
    without = [record for record in now if record.rank != 5]
    alone, both = analyze(without), analyze([*before, *without])
    assert (both.verdict, both.root_ranks) == (alone.verdict, alone.root_ranks)
    assert both.absent_ranks == alone.absent_ranks == (5,)


def test_one_rank_that_was_started_anew_leaves_the_others_in_their_attempt() -> None:
    job = _attempt(missing_rank(), 0, 0)
    anew = replace(job[5], attempt=1, pid=9000, started_ns=job[0].taken_ns + 1)
    found = analyze([*job[:5], anew, *job[6:]])
    assert found.absent_ranks == ()


def test_who_was_killed_before_another_took_its_place_is_told() -> None:
    """As under `pycomms run`: the job has ended well, and only the record of the killed process tells of it."""
    job = [replace(record, closed=True) for record in _attempt(healthy(), 0, 0)]
    killed = replace(job[3], closed=False, stop_reason="", writer="ring")
    anew = replace(job[3], attempt=1, pid=9000, started_ns=job[0].taken_ns + 1)
    found = analyze([*job[:3], killed, anew, *job[4:]])
    assert found.verdict is Verdict.HEALTHY
    (one,) = found.replaced
    assert (one.rank, one.pid) == (3, killed.pid)
    assert one.op is not None
    assert one.op.kind == killed.signatures[int(killed.entries["signature"][-1])].kind
    assert f"before: process {killed.pid} of rank 3 was killed, behind {one.op.kind}" in to_text(found)
    assert json.loads(to_json(found))["replaced"][0]["rank"] == 3


def test_whom_the_launcher_ended_was_not_killed() -> None:
    before, now = _attempt(missing_rank(), 0, 0), _attempt(healthy(), 1, _LATER)
    assert all(record.stop_reason for record in before)
    assert analyze([*before[: len(now)], *now]).replaced == ()
