"""Where each rank stands: the last operation that it completed, and the one that it has been in since.

Pure. Must not know: files, terminals, verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pycomms.flight_recorder._model import Entries, Flag, Record, State
from pycomms.flight_recorder._words import group_label, op_text, signature_text, state_text

_IN_FLIGHT = (State.ISSUED, State.RUNNING)
_GAVE_UP = (State.FAILED, State.TIMED_OUT, State.CANCELLED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """One rank. Texts are empty, and ages None, where the record does not tell.

    operation, group, sequence, state, site: of the oldest operation that has not ended; without one, of the first that
    did not end well, where its group has not been regrouped since. in_flight: how many have not ended. age_ns: since
    that operation was issued; quiet_ns: since anything was issued or ended.
    """

    rank: int
    host: str
    pid: int
    alive: bool | None
    operation: str = ""
    detail: str = ""
    group: str = ""
    sequence: int = 0
    state: str = ""
    site: str = ""
    in_flight: int = 0
    age_ns: int | None = None
    quiet_ns: int | None = None
    last_completed: str = ""
    last_site: str = ""
    job: str = ""
    source: str = ""


def current_entry(record: Record) -> Entries | None:
    """The row that the process is in, if any.

    It is the oldest one: those behind it wait for it. Of writers that cannot tell when an operation ends, a state
    before ``completed`` says nothing, so these rows do not count. Nor does what has failed in a group that has been
    regrouped since: that group goes on.
    """
    entries = record.entries
    stuck = np.isin(entries["state"], _IN_FLIGHT) & (entries["flags"] & Flag.NO_COMPLETION == 0)
    found = np.flatnonzero(stuck)
    if not len(found):
        over = np.isin(entries["group"], _regrouped(record))
        found = np.flatnonzero(np.isin(entries["state"], _GAVE_UP) & ~over)
    if not len(found):
        return None
    row: Entries = entries[found[np.argmin(entries["id"][found])]]
    return row


def _regrouped(record: Record) -> list[int]:
    """Groups of which the record has a later generation."""
    newest: dict[str, int] = {}
    for group in record.groups:
        newest[group.name] = max(newest.get(group.name, 0), group.generation)
    return [index for index, group in enumerate(record.groups) if group.generation < newest[group.name]]


def last_completed(record: Record) -> Entries | None:
    """The row of the operation that was issued last among those that completed."""
    found = np.flatnonzero(record.entries["state"] == State.COMPLETED)
    if not len(found):
        return None
    row: Entries = record.entries[found[np.argmax(record.entries["id"][found])]]
    return row


def stand(record: Record, now_ns: int) -> Standing:
    """Where the process of this record stands at `now_ns` of its wall clock (0: nobody knows what time it is).

    What a process was in when it ended does not grow older; for how long it has been quiet does.
    """
    until = record.taken_ns or now_ns if record.alive is False else now_ns
    entries = record.entries
    latest = max((int(entries[name].max(initial=0)) for name in ("issued_ns", "ended_ns")), default=0)
    in_flight = np.isin(entries["state"], _IN_FLIGHT) & (entries["flags"] & Flag.NO_COMPLETION == 0)
    standing = Standing(
        rank=record.rank,
        host=record.host,
        pid=record.pid,
        alive=record.alive,
        in_flight=int(np.count_nonzero(in_flight)),
        quiet_ns=max(now_ns - latest, 0) if now_ns and latest else None,
        job=record.job,
        source=record.source,
    )
    current = current_entry(record)
    if current is not None:
        issued = int(current["issued_ns"])
        signature = record.signatures[current["signature"]]
        standing = replace(
            standing,
            operation=signature.kind,
            detail=signature_text(signature),
            group=group_label(record.groups[current["group"]]),
            sequence=int(current["sequence"]),
            state=state_text(State(int(current["state"]))),
            site=str(record.sites[current["site"]]),
            # Of a killed process that has noted nothing since, nobody knows how long it was in there.
            age_ns=until - issued if until > issued > 0 else None,
        )
    done = last_completed(record)
    if done is not None:
        site = str(record.sites[done["site"]])
        standing = replace(standing, last_completed=op_text(record, done), last_site=site)
    return standing
