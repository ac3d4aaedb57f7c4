"""Ranks whose sequence numbers do not mean what those of others mean.

A recorder attached late counts from there, which a shift puts right; a process that was started anew has begun again,
and nothing puts that right. Marks the lanes; must not know: verdicts.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import numpy as np

from pycomms.flight_recorder._model import Flag, State
from pycomms.flight_recorder.analysis._job import GroupLanes, Job, Lane
from pycomms.flight_recorder.analysis._mismatch import Keys

if TYPE_CHECKING:
    import numpy.typing as npt

_FEW = 2


def mark(job: Job, keys: Keys) -> list[str]:
    """Sets shift and restarted of the lanes that need it, and says so in warnings."""
    warnings = []
    for group in job.groups:
        lanes = [lane for _, lane in sorted(group.lanes.items()) if len(lane.rows)]
        furthest = heapq.nlargest(2, lanes, key=lambda lane: (lane.last, -lane.rank))
        for lane in lanes:
            if len(furthest) < 2 or lane.first != 1 or lane.record.dropped:
                continue
            ahead = furthest[1] if lane is furthest[0] else furthest[0]
            if ahead.last - lane.last < _FEW and not _is_late(lane):
                continue
            shift = _shift(lane, ahead, keys)
            if shift:
                lane.shift = shift
                warnings.append(
                    f"rank {lane.rank} began to record group {group.ref.label} late: "
                    f"its sequence numbers are taken to be {shift} too small"
                )
            elif _began_again(job, group, lane, ahead):
                lane.restarted = True
                warnings.append(f"rank {lane.rank} began again: its sequence numbers in {group.ref.label} start anew")
    return warnings


def _is_late(lane: Lane) -> bool:
    return bool((lane.record.entries["flags"][lane.rows[:1]] & Flag.LATE).any())


def _times(lane: Lane) -> npt.NDArray[np.int64]:
    times: npt.NDArray[np.int64] = lane.record.entries["issued_ns"][lane.rows]
    return times


def _shift(lane: Lane, ahead: Lane, keys: Keys) -> int:
    """By how much the lane's numbers are too small, if that is what explains them; 0 if not."""
    guess = ahead.last - lane.last
    times, theirs = _times(lane), _times(ahead)
    timed = bool(times.all() and theirs.all())
    candidates = {guess + near for near in range(-_FEW, _FEW + 1)}
    if timed:
        middle = len(times) // 2
        seen_then = int(ahead.sequences[min(int(np.searchsorted(theirs, times[middle])), len(theirs) - 1)])
        candidates |= {seen_then - int(lane.sequences[middle]) + near for near in range(-_FEW, _FEW + 1)}
    best: tuple[float, int] | None = None
    for candidate in sorted(candidates):
        distance = _distance(lane, ahead, candidate, keys) if candidate > 0 else None
        if distance is not None and (best is None or distance < best[0]):
            best = (distance, candidate)
    if best is None:
        return 0
    if _is_late(lane):
        return best[1]
    unshifted = _distance(lane, ahead, 0, None)
    return best[1] if timed and (unshifted is None or best[0] < unshifted / 4) else 0


def _distance(lane: Lane, ahead: Lane, shift: int, keys: Keys | None) -> float | None:
    """How far apart in time the two ranks issued what would be the same operations; None if those are not the same."""
    wanted = lane.sequences + shift
    where = np.searchsorted(ahead.sequences, wanted)
    inside = where < len(ahead.sequences)
    common = np.flatnonzero(inside)[ahead.sequences[where[inside]] == wanted[inside]]
    if not len(common) or len(common) < len(wanted) // 2:
        return None
    if keys is not None and (keys.of[lane.signatures[common]] != keys.of[ahead.signatures[where[common]]]).any():
        return None
    return float(np.median(np.abs(_times(lane)[common] - _times(ahead)[where[common]])))


def _began_again(job: Job, group: GroupLanes, lane: Lane, ahead: Lane) -> bool:
    """Others have finished operations that they could not have finished without this rank, which never issued them."""
    finished = ahead.states() == State.COMPLETED
    beyond = bool((finished & (ahead.sequences > lane.last)).any()) or ahead.first > lane.last
    if not beyond:
        return False
    if any(older.pid != lane.record.pid for older in job.superseded.get(lane.rank, ())):
        return True
    attempts = [other.record.attempt for rank, other in group.lanes.items() if rank != lane.rank]
    if lane.record.attempt > max(attempts):
        return True
    times, theirs = _times(lane), _times(ahead)
    if times.all() and theirs.all():
        return bool(times[0] > theirs[-1])
    waiting = bool((lane.states() <= State.RUNNING).any())
    return waiting and ahead.last > lane.last + 1
