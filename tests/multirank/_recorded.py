"""What the flight recorder of this process, or of another, holds, as tests like to look at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pycomms import flight_recorder
from pycomms.flight_recorder import _ring
from pycomms.flight_recorder._model import Flag, Record, Signature, State


@dataclass(frozen=True)
class Seen:
    """An entry, as a test likes to look at it."""

    group: str
    sequence: int
    signature: Signature
    state: State
    flags: Flag
    site: str
    error: str
    issued_ns: int
    started_ns: int
    ended_ns: int


def seen_in(record: Record) -> list[Seen]:
    return [
        Seen(
            group=record.groups[entry["group"]].name,
            sequence=int(entry["sequence"]),
            signature=record.signatures[entry["signature"]],
            state=State(entry["state"]),
            flags=Flag(int(entry["flags"])),
            site=str(record.sites[entry["site"]]),
            error=record.errors[entry["error"]],
            issued_ns=int(entry["issued_ns"]),
            started_ns=int(entry["started_ns"]),
            ended_ns=int(entry["ended_ns"]),
        )
        for entry in record.entries
    ]


def my_record() -> Record:
    path = flight_recorder.ring_path()
    assert path is not None
    return _ring.read(path)


def recorded(call: Callable[[], object]) -> list[Seen]:
    """What this process has recorded during the call."""
    before = {int(entry["id"]) for entry in my_record().entries}
    call()
    record = my_record()
    return [one for entry, one in zip(record.entries, seen_in(record), strict=True) if int(entry["id"]) not in before]
