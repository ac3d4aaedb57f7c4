"""The job as a trace that https://ui.perfetto.dev and chrome://tracing open: a process a rank, tracks for each group.

The format is Chrome's trace events as JSON. Operations of one group may overlap without nesting (asynchronous ones),
which a track cannot show, so each overlapping one goes to a further track of the group. An operation that has not ended
reaches to the end of the record. Times are those of one host; _clocks.py says how the others were brought to it. Must
not know: how verdicts are found.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pycomms.flight_recorder._clocks import align
from pycomms.flight_recorder._collectives import Integers
from pycomms.flight_recorder._model import Entries, Record, State
from pycomms.flight_recorder._processes import one_of_each_process
from pycomms.flight_recorder._whole_file import whole_file
from pycomms.flight_recorder._words import group_label, payload, signature_text, state_text
from pycomms.flight_recorder.analysis import Analysis

_TRACKS_PER_GROUP = 1000


def write(path: str | Path, records: Sequence[Record], analysis: Analysis) -> None:
    """Writes the trace. The file appears when it is whole."""
    records = one_of_each_process(records)
    with whole_file(Path(path)) as file:
        file.write(b'{"displayTimeUnit":"ms","otherData":')
        alignment = align(records)
        about = {"verdict": analysis.verdict.value, "clocks": alignment.said}
        file.write(_json(about) + b',"traceEvents":[')
        separator = b"\n"
        for event in events(records, alignment.offsets_ns, set(analysis.root_ranks)):
            file.write(separator + _json(event))
            separator = b",\n"
        file.write(b"\n]}\n")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def events(records: Sequence[Record], offsets_ns: Integers, root_ranks: set[int]) -> Iterator[dict[str, Any]]:
    """All events; those of one track in the order of time. Two records of one rank become two processes."""
    issued = [
        int(record.entries["issued_ns"][record.entries["issued_ns"] > 0].min()) + int(offset)
        for record, offset in zip(records, offsets_ns, strict=True)
        if (record.entries["issued_ns"] > 0).any()
    ]
    zero = min(issued, default=0)
    for number, (record, offset) in enumerate(zip(records, offsets_ns.tolist(), strict=True)):
        yield from _process(record, number, offset - zero, record.rank in root_ranks)


def _process(record: Record, pid: int, shift_ns: int, is_root: bool) -> Iterator[dict[str, Any]]:
    mark = " (root cause)" if is_root else ""
    where = f" {record.host}:{record.pid}" if record.host else ""
    yield _named("process_name", pid, 0, f"rank {record.rank}{mark}{where}")
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": record.rank}}
    entries = record.entries[record.entries["issued_ns"] > 0]
    begin = np.where(entries["started_ns"] > 0, entries["started_ns"], entries["issued_ns"])
    # It has not ended: up to the moment that the record shows last.
    latest = max(int(entries[name].max(initial=0)) for name in ("issued_ns", "started_ns", "ended_ns"))
    end = np.where(entries["ended_ns"] > 0, entries["ended_ns"], max(record.taken_ns, latest))
    end = np.maximum(end, begin)
    for position, group in enumerate(record.groups):
        chosen = np.flatnonzero(entries["group"] == position)
        chosen = chosen[np.argsort(begin[chosen], kind="stable")]
        tracks = assign_tracks(begin[chosen].tolist(), end[chosen].tolist())
        for track in range(max(tracks, default=-1) + 1):
            tid = 1 + position * _TRACKS_PER_GROUP + track
            more = f" (overlapping {track})" if track else ""
            yield _named("thread_name", pid, tid, f"{group_label(group)}{more}")
            yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
        yield from _spans(record, entries[chosen], begin[chosen], end[chosen], tracks, pid, position, shift_ns)


def _spans(
    record: Record,
    rows: Entries,
    begin: Integers,
    end: Integers,
    tracks: Sequence[int],
    pid: int,
    position: int,
    shift_ns: int,
) -> Iterator[dict[str, Any]]:
    """The operations of one group. By columns: a field of a row costs numpy ten times what one of a list does."""
    group = record.groups[position]
    texts = [{"operation": signature_text(one), "bytes": payload(one, len(group.ranks))} for one in record.signatures]
    sites = [str(site) for site in record.sites]
    label = group_label(group)
    waited = np.where(rows["started_ns"] > 0, np.maximum(rows["started_ns"] - rows["issued_ns"], 0), 0).tolist()
    names = ("signature", "state", "sequence", "site", "error")
    columns = zip(*(rows[name].tolist() for name in names), strict=True)
    for (signature, state, sequence, site, error), start, stop, track, wait in zip(
        columns, begin.tolist(), end.tolist(), tracks, waited, strict=True
    ):
        said = state_text(State(state))
        arguments = {**texts[signature], "group": label, "sequence": sequence, "state": said, "called at": sites[site],
                     "issued before start, µs": wait / 1000, "error": record.errors[error]}  # fmt: skip
        yield {
            "ph": "X",
            "name": record.signatures[signature].kind,
            "cat": said,
            "pid": pid,
            "tid": 1 + position * _TRACKS_PER_GROUP + track,
            "ts": (start + shift_ns) / 1000,
            "dur": (stop - start) / 1000,
            "args": {name: value for name, value in arguments.items() if value},
        }


def assign_tracks(begin: Iterable[int], end: Iterable[int]) -> list[int]:
    """For spans sorted by begin, the lowest track on which nothing is left of the one before. At most 1,000 tracks."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []  # until when, track
    used = 0
    result = []
    for first, last in zip(begin, end, strict=True):
        while busy and busy[0][0] <= first:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            track = heapq.heappop(free)
        else:
            # Beyond what a person could look at, spans share the last track.
            track = min(used, _TRACKS_PER_GROUP - 1)
            used += 1
        heapq.heappush(busy, (last, track))
        result.append(track)
    return result


def _named(kind: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
