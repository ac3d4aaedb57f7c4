"""Messages: which send belongs to which receive, and which of the two is missing.

The n-th send from one rank to another in a group, with a tag, meets the n-th receive of that tag there: that is all
that ranks agree about, whatever order each one issues its messages in. Must not know: collectives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from pycomms.flight_recorder._model import ANY_SOURCE, UNKNOWN_RANK, Flag, State
from pycomms.flight_recorder.analysis._agreement import numel
from pycomms.flight_recorder.analysis._job import Job, seen_at
from pycomms.flight_recorder.analysis._result import OpRef, Side, Verdict
from pycomms.flight_recorder.analysis._waits import YOUNG_NS, Wait

if TYPE_CHECKING:
    import numpy.typing as npt

_COLUMNS = np.dtype(
    [
        ("group", "<i4"),
        ("source", "<i4"),
        ("destination", "<i4"),
        ("tag", "<i4"),
        ("receives", "?"),
        ("row", "<i4"),
        ("size", "<i8"),
        ("state", "u1"),
        ("stuck", "?"),
    ],
    align=True,
)

_Messages: TypeAlias = "npt.NDArray[np.void]"


@dataclass(slots=True)
class _Pair:
    """The messages of one tag from one rank to another. exact: both ends recorded all of them."""

    group: int
    source: int
    destination: int
    tag: int
    sends: _Messages
    receives: _Messages
    exact: bool

    @property
    def lead(self) -> int:
        """How many more sends than receives were overwritten: what has ended on both sides is taken to be the same."""
        return 0 if self.exact else _ended(self.sends) - _ended(self.receives)


def message_waits(job: Job) -> list[Wait]:
    """The waits for messages, faults found on the way included."""
    taking_any: set[tuple[int, int]] = set()
    messages = [part for rank in job.records for part in _of_rank(job, rank, taking_any)]
    if not messages:
        return []
    table = np.concatenate(messages)
    lonely: list[tuple[Wait, _Pair]] = []
    waits: list[Wait] = []
    pairs = list(_pairs(job, table))
    for pair in pairs:
        found = _of_pair(job, pair, taking_any)
        for wait in found:
            alone = wait.fault is None and (wait.absent or wait.unknown)
            (lonely.append((wait, pair)) if alone else waits.append(wait))
    return waits + _tags(job, lonely, pairs)


def _of_rank(job: Job, rank: int, taking_any: set[tuple[int, int]]) -> Iterator[_Messages]:
    record = job.records[rank]
    entries = record.entries
    rows = np.flatnonzero(((entries["flags"] & Flag.P2P) != 0) & (entries["state"] != State.REJECTED))
    kinds = [one.kind for one in record.signatures]
    is_message = np.array([kind in ("send", "recv") for kind in kinds] or [False], bool)
    rows = rows[is_message[entries["signature"][rows]]] if len(rows) else rows
    if not len(rows):
        return
    used = entries[rows]
    out = np.zeros(len(rows), _COLUMNS)
    out["row"], out["state"], out["stuck"] = rows, used["state"], _stuck(used, seen_at(record), record.closed)
    out["receives"] = np.array([kind == "recv" for kind in kinds], bool)[used["signature"]]
    out["tag"] = np.array([one.tag for one in record.signatures], np.int64)[used["signature"]]
    sizes = [numel(one.output_sizes if one.kind == "recv" else one.input_sizes) for one in record.signatures]
    out["size"] = np.array(sizes, np.int64)[used["signature"]]
    peers = np.zeros(len(rows), np.int64)
    for index in sorted(set(used["group"].tolist())):
        place = job.group_of[rank, index]
        members = job.groups[place].members
        table = np.array([_global(one.peer, members) for one in record.signatures], np.int64)
        chosen = used["group"] == index
        out["group"][chosen] = place
        peers[chosen] = table[used["signature"][chosen]]
        if ((peers == ANY_SOURCE) & chosen).any():
            taking_any.add((place, rank))
    out["source"] = np.where(out["receives"], peers, rank)
    out["destination"] = np.where(out["receives"], rank, peers)
    yield out[peers >= 0]


def _global(peer: int, members: tuple[int, ...]) -> int:
    if peer == ANY_SOURCE:
        return ANY_SOURCE
    if not members:
        return peer  # the world, as far as anyone knows
    return members[peer] if 0 <= peer < len(members) else UNKNOWN_RANK


def _stuck(entries: npt.NDArray[np.void], taken_ns: int, closed: bool) -> npt.NDArray[np.bool_]:
    states, flags = entries["state"], entries["flags"]
    mute = ((flags & Flag.NO_COMPLETION) != 0) & ((flags & Flag.RETIRED) != 0)
    stuck = (states == State.ISSUED) | (states == State.RUNNING)
    stuck &= ~mute & (not closed)
    if taken_ns:
        age = taken_ns - entries["issued_ns"]
        stuck &= ~((age >= 0) & (age < YOUNG_NS))
    result: npt.NDArray[np.bool_] = stuck | (states == State.FAILED) | (states == State.TIMED_OUT)
    return result


def _pairs(job: Job, table: _Messages) -> Iterator[_Pair]:
    order = np.lexsort(
        (table["row"], table["receives"], table["tag"], table["destination"], table["source"], table["group"])
    )
    table = table[order]
    changes = np.zeros(len(table), bool)
    for name in ("group", "source", "destination", "tag"):
        changes[1:] |= table[name][1:] != table[name][:-1]
    for part in np.split(table, np.flatnonzero(changes)):
        first = part[0]
        source, destination = int(first["source"]), int(first["destination"])
        known = [job.records.get(rank) for rank in (source, destination)]
        yield _Pair(
            group=int(first["group"]),
            source=source,
            destination=destination,
            tag=int(first["tag"]),
            sends=part[~part["receives"]],
            receives=part[part["receives"]],
            exact=all(record is not None and not record.dropped for record in known),
        )


def _ended(messages: _Messages) -> int:
    ended = np.flatnonzero(messages["state"] == State.COMPLETED)
    return int(ended[-1]) + 1 if len(ended) else 0


def _of_pair(job: Job, pair: _Pair, taking_any: set[tuple[int, int]]) -> Iterator[Wait]:
    """The first message of the pair that does not arrive."""
    lead = pair.lead
    if pair.exact:
        both = min(len(pair.sends), len(pair.receives))
        unlike = np.flatnonzero(pair.sends["size"][:both] != pair.receives["size"][:both])
        if len(unlike):
            yield _unlike(job, pair, int(unlike[0]))
            return
    send = _first(pair.sends["stuck"])
    receive = _first(pair.receives["stuck"])
    if send is not None and receive is not None and send - lead == receive:
        if pair.sends["size"][send] != pair.receives["size"][receive]:
            yield _unlike(job, pair, send, receive)
        else:
            ends = {pair.source: pair.sends[send], pair.destination: pair.receives[receive]}
            yield _wait(job, pair, "recv", receive, ends)
        return
    if send is not None and send - lead >= len(pair.receives) and (pair.group, pair.destination) not in taking_any:
        yield _alone(job, pair, "send", send, pair.sends[send])
    if receive is not None and receive + lead >= len(pair.sends):
        yield _alone(job, pair, "recv", receive, pair.receives[receive])


def _first(where: npt.NDArray[np.bool_]) -> int | None:
    found = np.flatnonzero(where)
    return int(found[0]) if len(found) else None


def _wait(job: Job, pair: _Pair, kind: str, place: int, ends: dict[int, np.void]) -> Wait:
    return Wait(
        group=pair.group,
        op=OpRef(kind=kind, sequence=place + 1, p2p=True, source=pair.source, destination=pair.destination),
        waiters={rank: State(int(message["state"])) for rank, message in ends.items() if message["stuck"]},
        issued_ns=min(int(job.records[rank].entries["issued_ns"][end["row"]]) for rank, end in ends.items()),
        rows={rank: int(message["row"]) for rank, message in ends.items()},
    )


def _alone(job: Job, pair: _Pair, kind: str, place: int, message: np.void) -> Wait:
    here, there = (pair.source, pair.destination) if kind == "send" else (pair.destination, pair.source)
    wait = _wait(job, pair, kind, place, {here: message})
    if job.is_blank(there):
        wait.unknown = (there,)
    else:
        wait.absent = (there,)
    return wait


def _unlike(job: Job, pair: _Pair, send: int, receive: int | None = None) -> Wait:
    ends = {pair.source: pair.sends[send], pair.destination: pair.receives[send if receive is None else receive]}
    wait = _wait(job, pair, "send", send, ends)
    wait.fault = Verdict.P2P_SIZE_MISMATCH
    wait.sides = (
        Side(ranks=(pair.source,), what=f"sends {int(ends[pair.source]['size'])} elements"),
        Side(ranks=(pair.destination,), what=f"receives {int(ends[pair.destination]['size'])} elements"),
    )
    return wait


def _tags(job: Job, lonely: list[tuple[Wait, _Pair]], pairs: Iterable[_Pair]) -> list[Wait]:
    """A send and a receive between the same two ranks that both lack their other half differ in their tags only."""
    spare: dict[tuple[int, int, int], list[_Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.exact and len(pair.sends) != len(pair.receives):
            spare[pair.group, pair.source, pair.destination].append(pair)
    waits = []
    joined: set[tuple[int, int, int]] = set()
    for wait, pair in lonely:
        key = (pair.group, pair.source, pair.destination)
        wants_send = wait.op.kind == "recv"
        others = [
            one for one in spare[key] if one.tag != pair.tag and (len(one.sends) > len(one.receives)) == wants_send
        ]
        if not others:
            waits.append(wait)
        elif key not in joined:
            joined.add(key)
            waits.append(_tag_fault(job, wait, pair, others[0]))
    return waits


def _tag_fault(job: Job, wait: Wait, pair: _Pair, other: _Pair) -> Wait:
    sending, receiving = (other, pair) if wait.op.kind == "recv" else (pair, other)
    sent = sending.sends[len(sending.receives)]
    received = receiving.receives[len(receiving.sends)]
    fault = _wait(job, pair, "send", wait.op.sequence - 1, {pair.source: sent, pair.destination: received})
    fault.fault = Verdict.P2P_TAG_MISMATCH
    fault.sides = (
        Side(ranks=(pair.source,), what=f"sends with tag {sending.tag}"),
        Side(ranks=(pair.destination,), what=f"receives with tag {receiving.tag}"),
    )
    return fault
