"""Where a rank that is one operation short left one out: later operations of the same kind hide it.

A rank's numbers go on without a gap when it skips an operation; but the lines of the program it was issued from are
then one off against everyone else's.
"""

from __future__ import annotations

import numpy as np

from pycomms.flight_recorder.analysis._job import Job, Lane
from pycomms.flight_recorder.analysis._result import OpRef
from pycomms.flight_recorder.analysis._waits import Wait


def left_out(job: Job, wait: Wait, ranks: tuple[int, ...]) -> OpRef | None:
    """The first operation that all these ranks left out, if the call sites show one before the wait."""
    lanes = job.groups[wait.group].lanes
    usual = next((lanes[rank] for rank in sorted(wait.waiters) if rank in lanes), None)
    if usual is None:
        return None
    found = {_between(job, lanes[rank], usual) if rank in lanes else None for rank in ranks}
    return found.pop() if len(found) == 1 else None


def _between(job: Job, odd: Lane, usual: Lane) -> OpRef | None:
    gap = usual.last + usual.shift - odd.last - odd.shift
    start = max(odd.first + odd.shift, usual.first + usual.shift)
    if gap <= 0 or not len(odd.rows) or not len(usual.rows):
        return None
    own, theirs = steps(job, odd, start), steps(job, usual, start)
    if len(theirs) - len(own) != gap or not len(own):
        return None
    unlike = np.flatnonzero(own != theirs[: len(own)])
    if not len(unlike):
        return None
    first = int(unlike[0])
    if not (own[first:] == theirs[first + gap :]).all():
        return None
    where = usual.at(start + first - usual.shift)
    if where is None:
        return None
    return OpRef(kind=job.signatures[usual.signatures[where]].kind, sequence=start + first)


def steps(job: Job, lane: Lane, start: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """What was issued from where, as numbers that are comparable between ranks."""
    record = lane.record
    chosen = lane.sequences + lane.shift >= start
    # The same line has different indices in different records: text hashes are the same within this process.
    lines = np.array([hash((site.file, site.line)) & 0x7FFFFFFF for site in record.sites], np.int64)
    sites = lines[record.entries["site"][lane.rows[chosen]]]
    mixed: np.ndarray[tuple[int], np.dtype[np.int64]] = sites * (1 << 31) + lane.signatures[chosen]
    return mixed
