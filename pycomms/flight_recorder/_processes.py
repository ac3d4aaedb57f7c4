"""Which records are of the same process. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from pycomms.flight_recorder._model import Record


def one_of_each_process(records: Iterable[Record]) -> list[Record]:
    """A process leaves a ring, and a dump each time that something happens: of these the one that knows most."""
    best: dict[object, Record] = {}
    for number, record in enumerate(records):
        known = record.pid and record.started_ns
        key = (record.host, record.pid, record.started_ns, record.rank) if known else number
        if key not in best or _knowledge(best[key]) < _knowledge(record):
            best[key] = record
    return [*best.values()]


def _knowledge(record: Record) -> tuple[int, int, int]:
    entries = record.entries
    return (int(entries["id"].max(initial=0)), int(np.count_nonzero(entries["ended_ns"])), record.taken_ns)
