"""Which ranks wait in which operation, and for whom: the wait-for relation, before anybody is blamed.

A wait is one operation of one group that somebody is stuck in. Must not know: verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pycomms.flight_recorder._model import Flag, State
from pycomms.flight_recorder.analysis._job import GroupLanes, Job, Lane, seen_at
from pycomms.flight_recorder.analysis._mismatch import Keys
from pycomms.flight_recorder.analysis._result import OpRef, Side, Verdict

YOUNG_NS = 200_000_000
"""An operation that has been in flight for less than this may just be running."""

_SKEW_NS = 1_000_000_000
"""Between the wall clocks of two hosts, at most."""

# Looking up a member of an enumeration costs as much as comparing a whole ring.
_UNKNOWN, _RUNNING, _COMPLETED = int(State.UNKNOWN), int(State.RUNNING), int(State.COMPLETED)
_FAILED, _TIMED_OUT = int(State.FAILED), int(State.TIMED_OUT)
_MUTE, _RETIRED = int(Flag.NO_COMPLETION), int(Flag.RETIRED)


@dataclass(slots=True, kw_only=True)
class Wait:
    """group: index; op: what they are stuck in. waiters: rank to its state there.

    absent: members that have not issued it, by their own record. unknown: members whose record is missing or ends
    before. done: members that have finished it. certain: False when the recorder cannot tell an ended operation from
    one in flight. issued_ns: the earliest.
    """

    group: int
    op: OpRef
    waiters: dict[int, State]
    absent: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    done: tuple[int, ...] = ()
    certain: bool = True
    issued_ns: int = 0
    rows: dict[int, int] = field(default_factory=dict)
    """Where the operation is in each waiter's record."""
    fault: Verdict | None = None
    """What is wrong with the operation itself, and who says what about it: of messages."""
    sides: tuple[Side, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Stand:
    """How far a rank has come in a group. pending: the first operation that it is stuck in, 0 if none."""

    lane: Lane
    last: int
    done: int
    pending: int = 0
    certain: bool = True


def collective_waits(job: Job, keys: Keys) -> list[Wait]:
    """The waits of all groups."""
    found: list[Wait] = []
    for index, group in enumerate(job.groups):
        if len(group.members) > 1:
            found.extend(_of_group(job, keys, index, group))
    return found


def _of_group(job: Job, keys: Keys, index: int, group: GroupLanes) -> list[Wait]:
    stands = {rank: _stand(lane) for rank, lane in sorted(group.lanes.items()) if not lane.restarted}
    _judge_the_uncertain(job, group, stands)
    numbers = sorted({stand.pending for stand in stands.values() if stand.pending})
    if not numbers:
        return []
    passed = max((_last_synchronised(stand, keys) for stand in stands.values()), default=0)
    waits = []
    for number in numbers:
        waiters = {rank: stand for rank, stand in stands.items() if stand.pending == number}
        done = tuple(rank for rank, stand in stands.items() if stand.done >= number)
        absent, unknown = [], []
        for rank in group.members:
            stand = stands.get(rank)
            last = stand.last if stand is not None else 0
            restarted = rank in group.lanes and group.lanes[rank].restarted
            if last >= number and not restarted:
                continue
            if number <= passed:
                continue  # somebody has left it, so everybody had come: the record is older than that
            if restarted or _is_known(job, rank, stand):
                absent.append(rank)
            else:
                unknown.append(rank)
        rows = {}
        for rank, stand in waiters.items():
            where = stand.lane.at(number - stand.lane.shift)
            if where is not None:
                rows[rank] = int(stand.lane.rows[where])
        waits.append(
            Wait(
                group=index,
                op=OpRef(kind=_kind(job, waiters, number), sequence=number),
                waiters={rank: _state(job, rank, rows.get(rank)) for rank in waiters},
                absent=tuple(absent),
                unknown=tuple(unknown),
                done=done,
                certain=any(stand.certain for stand in waiters.values()),
                issued_ns=min(
                    (int(job.records[rank].entries["issued_ns"][row]) for rank, row in rows.items()), default=0
                ),
                rows=rows,
            )
        )
    return waits


def _is_known(job: Job, rank: int, stand: _Stand | None) -> bool:
    """Whether the rank's record shows that it did not issue an operation, by not having it."""
    if job.is_blank(rank):
        return False
    return stand is not None or not job.records[rank].dropped


def _stand(lane: Lane) -> _Stand:
    """What the states of one rank's operations say, where they say something."""
    entries = lane.record.entries
    states = entries["state"][lane.rows]
    flags = entries["flags"][lane.rows]
    mute = (flags & _MUTE) != 0
    done = (states == _COMPLETED) & ~mute
    last_done = _last(done)
    in_flight = (states <= _RUNNING) & (states != _UNKNOWN) & ~(mute & ((flags & _RETIRED) != 0))
    in_flight[: last_done + 1] &= mute[: last_done + 1]  # streams end in order: what lies before has ended too
    if lane.record.closed:
        in_flight[:] = False
    elif seen_at(lane.record):
        age = seen_at(lane.record) - entries["issued_ns"][lane.rows]
        in_flight &= ~((age >= 0) & (age < YOUNG_NS))
    failed = (states == _FAILED) | (states == _TIMED_OUT)
    failed[: last_done + 1] = False
    stuck = np.flatnonzero(in_flight | failed)
    return _Stand(
        lane=lane,
        last=lane.last + lane.shift,
        done=int(lane.sequences[last_done]) + lane.shift if last_done >= 0 else 0,
        pending=int(lane.sequences[stuck[0]]) + lane.shift if len(stuck) else 0,
    )


def _last(where: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    found = np.flatnonzero(where)
    return int(found[-1]) if len(found) else -1


def _last_synchronised(stand: _Stand, keys: Keys) -> int:
    """The last operation that this rank has left and that it could not have left before all had come."""
    if not stand.done:
        return 0
    lane = stand.lane
    before = int(np.searchsorted(lane.sequences, stand.done - lane.shift, side="right"))
    found = np.flatnonzero(keys.synchronises[lane.signatures[:before]])
    return int(lane.sequences[found[-1]]) + lane.shift if len(found) else 0


def _judge_the_uncertain(job: Job, group: GroupLanes, stands: dict[int, _Stand]) -> None:
    """Recorders that never mark an end: a rank that is ahead of another may wait for it, or be done with it.

    gloo's marks what ended, with an error or without: it was an error if the timeout had passed when the record was
    taken. The hook marks nothing: the others not being there a while later is the only sign.
    """
    known = [rank for rank in stands if not job.is_blank(rank)]
    silent = [rank for rank in group.members if rank not in job.records]
    missing_altogether = [r for r in group.members if r not in group.lanes and _is_known(job, r, None)]
    if not known:
        return
    slowest = 0 if missing_altogether and not group.inferred else min(stands[rank].last for rank in known)
    behind = [seen_at(job.records[rank]) for rank in known if stands[rank].last == slowest]
    behind += [seen_at(job.records[rank]) for rank in missing_altogether if not slowest]
    looked_at = min(behind, default=0)
    for stand in stands.values():
        lane = stand.lane
        # Of a rank without a record, the last operation that all others have come to is where it could be missing.
        number = slowest if silent and stand.last == slowest else slowest + 1
        where = lane.at(number - lane.shift)
        if stand.pending or where is None:
            continue
        entry = lane.record.entries[lane.rows[where]]
        if not int(entry["flags"]) & Flag.NO_COMPLETION:
            continue
        taken, issued, timeout = seen_at(lane.record), int(entry["issued_ns"]), int(entry["timeout_ms"]) * 1_000_000
        if entry["state"] == State.COMPLETED:
            if taken and taken - issued < timeout and not silent:
                continue
            stand.certain = bool(taken and timeout and taken - issued >= timeout)
        elif number > slowest:
            if looked_at and looked_at - issued < _SKEW_NS:
                continue
            stand.certain = bool(looked_at)
        else:
            continue
        stand.pending = number


def _kind(job: Job, waiters: dict[int, _Stand], number: int) -> str:
    for stand in waiters.values():
        where = stand.lane.at(number - stand.lane.shift)
        if where is not None:
            signature = job.signatures[int(stand.lane.signatures[where])]
            return signature.kind
    return "unknown"


def _state(job: Job, rank: int, row: int | None) -> State:
    return State.UNKNOWN if row is None else State(int(job.records[rank].entries["state"][row]))
