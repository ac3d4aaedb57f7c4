"""A rank that everybody waits for, again and again, in a job that runs.

Judged by how long operations take on each rank: the last to come waits least. Clocks of different hosts are not
compared. Must not know: anything about faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pycomms.flight_recorder._model import Flag, State
from pycomms.flight_recorder.analysis._job import GroupLanes, Job, Lane
from pycomms.flight_recorder.analysis._mismatch import Keys
from pycomms.flight_recorder.analysis._places import sites_at
from pycomms.flight_recorder.analysis._result import Finding, OpRef, Verdict, Victims
from pycomms.flight_recorder.analysis._text import duration_text

if TYPE_CHECKING:
    import numpy.typing as npt

_AT_LEAST = 20
_LOOK_BACK = 64
_ALWAYS = 0.9
_MUCH_SHORTER = 0.2
_HALF_THE_TIME = 0.5


def slow_ranks(job: Job, keys: Keys) -> list[Finding]:
    """At most one finding: the group that loses most of its time."""
    found = [one for index, group in enumerate(job.groups) if (one := _of_group(job, keys, index, group)) is not None]
    return sorted(found, key=lambda finding: (-finding.confidence, finding.root_ranks))[:1]


def _of_group(job: Job, keys: Keys, index: int, group: GroupLanes) -> Finding | None:
    lanes = [lane for _, lane in sorted(group.lanes.items()) if len(lane.rows) >= _AT_LEAST]
    if len(lanes) < 3:
        return None
    last = min(lane.last + lane.shift for lane in lanes)
    taken = [_durations(keys, lane, last) for lane in lanes]
    together = np.array([durations for durations, _ in taken])
    usable = (together > 0).all(axis=0)
    if usable.sum() < _AT_LEAST:
        return None
    together = together[:, usable]
    quickest = together.argmin(axis=0)
    counts = np.bincount(quickest, minlength=len(lanes))
    slow = int(counts.argmax())
    others = np.delete(together, slow, axis=0)
    waited, own = float(np.median(others)), float(np.median(together[slow]))
    issued = taken[slow][1][usable]
    step = float(np.median(np.diff(issued))) if len(issued) > 1 else 0.0
    if counts[slow] < _ALWAYS * usable.sum() or own > _MUCH_SHORTER * waited or waited < _HALF_THE_TIME * step:
        return None
    rank = lanes[slow].rank
    where = lanes[slow].at(last - lanes[slow].shift)
    kind = job.signatures[lanes[slow].signatures[where]].kind if where is not None else "collective"
    op = OpRef(kind=kind, sequence=last)
    waiting = tuple(lane.rank for lane in lanes if lane.rank != rank)
    return Finding(
        verdict=Verdict.SLOW_RANK,
        root_ranks=(rank,),
        group=group.ref,
        op=op,
        culprit_sites=sites_at(job, index, last, (rank,)),
        victim_sites=sites_at(job, index, last, waiting),
        victims=(Victims(group=group.ref, ranks=waiting, op=op),),
        what=f"the job runs, but rank {rank} was the last to come to {int(counts[slow])} of the last "
        f"{int(usable.sum())} operations of {group.ref.label}: the others wait {duration_text(int(waited))} each time",
        next_step=f"profile rank {rank} between its operations: data loading, a slower device, a throttled clock",
        confidence=round(min(0.9, waited / step if step else 0.5), 2),
    )


def _durations(keys: Keys, lane: Lane, last: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How long each of the last operations took on this rank, 0 where that is not known; and when it was issued."""
    wanted = np.arange(max(1, last - _LOOK_BACK + 1), last + 1) - lane.shift
    where = np.searchsorted(lane.sequences, wanted)
    where[where == len(lane.sequences)] = 0
    entries = lane.record.entries[lane.rows[where]]
    sound = (lane.sequences[where] == wanted) & (entries["state"] == State.COMPLETED)
    sound &= keys.synchronises[lane.signatures[where]] & (entries["ended_ns"] > 0)
    sound &= (entries["flags"] & int(Flag.TIMES_FOUND | Flag.NO_COMPLETION)) == 0
    return np.where(sound, entries["ended_ns"] - entries["issued_ns"], 0), entries["issued_ns"].astype(np.int64)
