"""What looks at a job that runs do not prove: its rings are read one after the other while it goes on.

A rank whose ring was read first has not issued what another was found in a moment later. That another has been in an
operation for a while is no fault either: ranks come at different times, one saves a checkpoint while the others wait,
and large operations take theirs. How long is too long only the job's author knows, and has said: it is a part of the
timeout. What no time heals is a fault at once: a process that is gone, or that was stopped. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from pycomms.flight_recorder._model import Record, State
from pycomms.flight_recorder.analysis._deaths import OURS
from pycomms.flight_recorder.analysis._job import Job, seen_at
from pycomms.flight_recorder.analysis._waits import Wait

LATE_NS = 1_000_000_000
"""So long others have waited for a rank, or have been done, before anything is said of it."""

LONG_NS = 5_000_000_000
"""So long an operation takes that all have come to, before anything is said of it."""

PATIENCE = 10
"""What takes longer than this part of the timeout is a fault."""

USUAL_TIMEOUT_NS = 600_000_000_000
"""Where none was recorded: the shorter of torch's two defaults."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Age:
    """lasted_ns: for how long these have waited, as far as looks tell; None: it is proven, however long.

    noticed_ns, fault_ns: how long that must be before anything is said, and before it is a fault.
    """

    lasted_ns: int | None
    noticed_ns: int = 0
    fault_ns: int = 0

    @property
    def is_noticed(self) -> bool:
        return self.lasted_ns is None or self.lasted_ns >= self.noticed_ns

    @property
    def is_fault(self) -> bool:
        return self.lasted_ns is None or self.lasted_ns >= self.fault_ns


_PROVEN = Age(lasted_ns=None)


def age_of(job: Job, wait: Wait, patience_ns: int | None = None) -> Age:
    """For how long they wait in it, by what was seen when each was looked at, and when that is too long.

    patience_ns: when it is, if somebody knows better than the timeout does.
    """
    in_flight = all(state in (State.ISSUED, State.RUNNING) for state in wait.waiters.values())
    if wait.fault is not None or not wait.issued_ns or not in_flight:
        return _PROVEN
    waiting = [job.records[rank] for rank in wait.waiters]
    if not all(map(_runs, waiting)):
        return _PROVEN
    last_seen = min(map(seen_at, waiting))
    lacking = [job.records.get(rank) for rank in (*wait.absent, *wait.unknown)]
    if lacking:
        if any(record is not None and _comes_no_more(record, waiting) for record in lacking):
            return _PROVEN
        # One without a record may have left in order since, and taken its ring with it: then the others leave as well.
        looks = [seen_at(record) if record is not None and _runs(record) else last_seen for record in lacking]
        return _age(job, wait, max(looks) - wait.issued_ns, LATE_NS, patience_ns)
    if any(record.stopped for record in waiting):
        return _PROVEN
    if wait.done:
        ends = [end for rank in wait.done if (end := _ended_ns(job, wait, rank))]
        return _age(job, wait, last_seen - min(ends) if ends else 0, LATE_NS, patience_ns)
    joined = max(int(job.records[rank].entries["issued_ns"][row]) for rank, row in wait.rows.items())
    return _age(job, wait, last_seen - joined, LONG_NS, patience_ns)


def _age(job: Job, wait: Wait, lasted_ns: int, noticed_ns: int, patience_ns: int | None) -> Age:
    if patience_ns is None:
        # Who writes a dump by itself, or at somebody's word, has a reason.
        asked = any((record := job.records[rank]).writer != "ring" and record.stop_reason for rank in wait.waiters)
        patience_ns = 0 if asked else _timeout_ns(job, wait) // PATIENCE
    return Age(lasted_ns=max(lasted_ns, 0), noticed_ns=noticed_ns, fault_ns=max(noticed_ns, patience_ns))


def _runs(record: Record) -> bool:
    """When it was looked at: it may have gone on since."""
    return record.writer in OURS and seen_at(record) != 0


def _comes_no_more(record: Record, waiting: list[Record]) -> bool:
    if record.stopped or not _runs(record):
        return True
    return record.alive is False and any(one.alive for one in waiting)


def _timeout_ns(job: Job, wait: Wait) -> int:
    """The shortest of those who wait. torch's hooks do not tell it."""
    ms = [int(job.records[rank].entries["timeout_ms"][wait.rows[rank]]) for rank in wait.waiters if rank in wait.rows]
    return min((one * 1_000_000 for one in ms if one), default=USUAL_TIMEOUT_NS)


def _ended_ns(job: Job, wait: Wait, rank: int) -> int:
    """0: it was overwritten since."""
    lane = job.groups[wait.group].lanes[rank]
    where = lane.at(wait.op.sequence - lane.shift)
    return 0 if where is None else int(lane.record.entries["ended_ns"][lane.rows[where]])
