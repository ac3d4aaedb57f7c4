"""What looks at a job that runs do not prove: its rings are read one after the other while it goes on.

A rank whose ring was read first has not issued what another was found in a moment later. That another has been in an
operation for a while is no fault either: ranks come at different times, and large operations take theirs. Pure.
"""

from __future__ import annotations

from pycomms.flight_recorder._model import State
from pycomms.flight_recorder.analysis._job import Job, seen_at
from pycomms.flight_recorder.analysis._waits import Wait

LATE_NS = 1_000_000_000
"""So long others have waited for a rank, or have been done, before it is called a fault."""

LONG_NS = 5_000_000_000
"""So long an operation takes that all have come to, before it is called a fault."""


def is_proven(job: Job, wait: Wait) -> bool:
    """Whether it is a fault that these wait in it, and not merely the moment at which each was looked at."""
    in_flight = all(state in (State.ISSUED, State.RUNNING) for state in wait.waiters.values())
    if wait.fault is not None or not wait.issued_ns or not in_flight:
        return True
    if not all(_runs(job, rank) for rank in wait.waiters):
        return True
    last_seen = min(seen_at(job.records[rank]) for rank in wait.waiters)
    lacking = (*wait.absent, *wait.unknown)
    if lacking:
        # One without a record may have left in order since, and taken its ring with it: then the others leave as well.
        looks = [seen_at(job.records[rank]) if _runs(job, rank) else last_seen for rank in lacking]
        ended = any(rank in job.records and not _runs(job, rank) for rank in lacking)
        return ended or max(looks) - wait.issued_ns >= LATE_NS
    if wait.done:
        ends = [end for rank in wait.done if (end := _ended_ns(job, wait, rank))]
        return bool(ends) and last_seen - min(ends) >= LATE_NS
    joined = max(int(job.records[rank].entries["issued_ns"][row]) for rank, row in wait.rows.items())
    return last_seen - joined >= LONG_NS


def _runs(job: Job, rank: int) -> bool:
    record = job.records.get(rank)
    return record is not None and record.writer == "ring" and bool(record.alive) and seen_at(record) != 0


def _ended_ns(job: Job, wait: Wait, rank: int) -> int:
    """0: it was overwritten since."""
    lane = job.groups[wait.group].lanes[rank]
    where = lane.at(wait.op.sequence - lane.shift)
    return 0 if where is None else int(lane.record.entries["ended_ns"][lane.rows[where]])
