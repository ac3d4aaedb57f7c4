"""What the HTML report draws of ranks over time: chosen around the fault, and packed for the page's script.

A job of 1,000 ranks with 2,000 operations each would be a page of 100 MB that nobody could open, and what matters is
near the end. So each rank keeps the operations around the one in question; what was left out is said. Pure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pycomms.flight_recorder._clocks import Alignment
from pycomms.flight_recorder._collectives import Integers
from pycomms.flight_recorder._model import Entries, Flag, Record, State
from pycomms.flight_recorder._words import group_label, payload, printable, signature_text, size_text, state_text
from pycomms.flight_recorder.analysis import Analysis

MOST_OPERATIONS = 120_000
"""On the page, of all ranks together: 3 MB."""

MOST_RANKS = 2_000

FEWEST_OF_A_RANK = 24

IN_VIEW = 6
"""Operations of a rank that the first view shows before everything stopped."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeline:
    """data: for the script. left_out: in words; empty when all is there. summary: the drawing in one sentence."""

    data: dict[str, Any]
    left_out: str
    summary: str


def timeline(records: Sequence[Record], analysis: Analysis, alignment: Alignment) -> Timeline:
    """Rows in the order in which somebody looks for them: root causes, those who wait, the rest."""
    roots = {rank for finding in analysis.findings[:1] for rank in finding.root_ranks}
    waiting = {edge.waiter for edge in analysis.edges}
    order = sorted(
        range(len(records)),
        key=lambda number: (
            records[number].rank not in roots,
            records[number].rank not in waiting,
            records[number].rank,
        ),
    )[:MOST_RANKS]
    each = max(MOST_OPERATIONS // max(len(order), 1), FEWEST_OF_A_RANK)
    offsets = alignment.offsets_ns.tolist()
    chosen = {number: _around_the_fault(records[number], analysis, each) for number in order}
    zero = min((int(rows["issued_ns"][0]) + offsets[number] for number, rows in chosen.items() if len(rows)), default=0)
    whats = _Whats()
    rows = [_row(records[number], chosen[number], offsets[number] - zero, whats, roots, waiting) for number in order]
    ends = [record.taken_ns + offset - zero for record, offset in zip(records, offsets, strict=True) if record.taken_ns]
    latest = max((_latest(rows) + offsets[number] - zero for number, rows in chosen.items() if len(rows)), default=0)
    end = max([latest, *ends])
    first_view = _first_view([(rows, offsets[number] - zero) for number, rows in chosen.items()], end)
    drawn = sum(map(len, chosen.values()))
    total = sum(len(record.entries) for record in records)
    return Timeline(
        data={
            "zero_ns": str(zero),  # more digits than a number of the script holds
            "end": end // 1000,
            "view": first_view,
            "groups": whats.groups,
            "whats": whats.table,
            "rows": rows,
        },
        left_out=_left_out(len(order), len(records), drawn, total, each),
        summary=f"{drawn:,} operations of {len(order):,} ranks. 0 is {_clock(zero)}." if drawn else "Nothing to draw.",
    )


def _clock(ns: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(ns // 10**9)) + f".{ns // 10**6 % 1000:03d} UTC"


def _left_out(ranks: int, all_ranks: int, drawn: int, total: int, each: int) -> str:
    said = []
    if drawn < total:
        said.append(f"{drawn:,} of {total:,} operations: up to {each:,} of each rank, around the fault")
    if ranks < all_ranks:
        said.append(f"{ranks:,} of {all_ranks:,} ranks: root causes and those who wait come first")
    if not said:
        return ""
    return f"Drawn are {'; and '.join(said)}. --perfetto writes everything."


def _around_the_fault(record: Record, analysis: Analysis, most: int) -> Entries:
    """Rows in the order of issue: those up to and around the operation in question, and all that have not ended."""
    entries = record.entries[record.entries["issued_ns"] > 0]
    entries = entries[np.argsort(entries["issued_ns"], kind="stable")]
    if len(entries) <= most:
        return entries
    stop = len(entries)
    finding = analysis.findings[0] if analysis.findings else None
    if finding is not None and finding.op is not None and finding.group is not None and not finding.op.p2p:
        named = np.array([group.name == finding.group.name for group in record.groups], bool)
        there = named[entries["group"]] & (entries["sequence"] == finding.op.sequence)
        there &= entries["flags"] & Flag.P2P == 0
        if there.any():
            stop = min(stop, int(np.flatnonzero(there)[-1]) + most // 4 + 1)
    kept = np.isin(entries["state"], (State.ISSUED, State.RUNNING)) & (entries["flags"] & Flag.NO_COMPLETION == 0)
    outside = int(np.count_nonzero(kept)) - int(np.count_nonzero(kept[max(stop - most, 0) : stop]))
    kept[max(stop - max(most - outside, FEWEST_OF_A_RANK), 0) : stop] = True
    return entries[np.flatnonzero(kept)[-2 * most :]]


def _latest(rows: Entries) -> int:
    return max(int(rows["issued_ns"].max()), int(rows["ended_ns"].max()))


def _first_view(rows: Sequence[tuple[Entries, int]], end: int) -> list[int]:
    """From a few operations before everything stopped to a little after it, in µs: the hours of waiting say nothing."""
    rows = [(some, shift) for some, shift in rows if len(some)]
    begins = [int(some["issued_ns"][-min(IN_VIEW, len(some))]) + shift for some, shift in rows]
    begin = float(np.median(begins)) if begins else 0.0
    stopped = max((_last_progress(some) + shift for some, shift in rows), default=0)
    span = max(stopped - begin, 1e6)
    stop = min(stopped + 0.45 * span, float(max(end, stopped)))
    return [int((begin - 0.02 * span) // 1000), int(stop // 1000) + 1]


def _last_progress(rows: Entries) -> int:
    """The last time that something began or ended well: to time out is no progress."""
    completed = np.where(rows["state"] == State.COMPLETED, rows["ended_ns"], 0)
    return max(int(rows["issued_ns"].max()), int(completed.max()))


class _Whats:
    """What operations were, each combination once: a job repeats a few dozen of them."""

    def __init__(self) -> None:
        self.table: list[dict[str, Any]] = []
        self.groups: list[str] = []
        self._known: dict[tuple[object, ...], int] = {}
        self._group_index: dict[str, int] = {}

    def index(self, record: Record, row: Entries) -> int:
        group = record.groups[row["group"]]
        signature = record.signatures[row["signature"]]
        site = record.sites[row["site"]]
        error = record.errors[row["error"]]
        state = State(int(row["state"])) if row["state"] in State._value2member_map_ else State.UNKNOWN
        no_completion = bool(row["flags"] & Flag.NO_COMPLETION)
        key = (group, signature, site, error, state, no_completion)
        index = self._known.get(key)
        if index is None:
            index = self._known[key] = len(self.table)
            label = printable(group_label(group))
            if label not in self._group_index:
                self._group_index[label] = len(self.groups)
                self.groups.append(label)
            moved = payload(signature, len(group.ranks))
            self.table.append(
                {
                    "kind": printable(signature.kind),
                    "text": printable(signature_text(signature)),
                    "group": self._group_index[label],
                    "bytes": size_text(moved) if moved else "",
                    "site": printable(f"{site} {site.function}".strip()),
                    "state": state_text(state) + (" (the writer cannot tell when it ends)" if no_completion else ""),
                    "look": _look(state, no_completion),
                    "error": printable(error),
                }
            )
        return index


def _look(state: State, no_completion: bool) -> str:
    if state in (State.FAILED, State.TIMED_OUT, State.CANCELLED, State.REJECTED):
        return "bad"
    if state in (State.ISSUED, State.RUNNING) and not no_completion:
        return "open"
    return "done"


def _row(
    record: Record, rows: Entries, shift: int, whats: _Whats, roots: set[int], waiting: set[int]
) -> dict[str, Any]:
    """Columns: begin (each against the one before), time to start, duration; all in µs, -1: not known or not ended."""
    begin = (rows["issued_ns"] + shift) // 1000
    started = np.where(rows["started_ns"] > 0, np.maximum(rows["started_ns"] - rows["issued_ns"], 0) // 1000, -1)
    lasted = np.where(rows["ended_ns"] > 0, np.maximum(rows["ended_ns"] - rows["issued_ns"], 0) // 1000, -1)
    return {
        "rank": record.rank,
        "host": printable(record.host),
        "gone": record.alive is False,
        "mark": "root cause" if record.rank in roots else "waits" if record.rank in waiting else "",
        "begin": np.diff(begin, prepend=0).tolist(),
        "started": started.tolist(),
        "lasted": lasted.tolist(),
        "what": _what_indices(record, rows, whats),
        "sequence": rows["sequence"].tolist(),
    }


def _what_indices(record: Record, rows: Entries, whats: _Whats) -> list[int]:
    """Looked up once for each combination that the rank has, not for each row."""
    if not len(rows):
        return []
    fields = ("group", "signature", "site", "error", "state", "flags")
    stacked: Integers = np.stack([rows[name].astype(np.int64) for name in fields], axis=1)
    _, first, inverse = np.unique(stacked, axis=0, return_index=True, return_inverse=True)
    indices = np.array([whats.index(record, rows[at]) for at in first.tolist()], np.int64)
    found: list[int] = indices[inverse.reshape(-1)].tolist()
    return found
