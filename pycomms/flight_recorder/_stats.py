"""``pycomms fr stats``: how long operations took, what bandwidth that was, and who came last.

Figures are computed in pure functions over records; the shell at the bottom loads and prints.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pycomms.flight_recorder._clocks import align
from pycomms.flight_recorder._collectives import Integers, meetings
from pycomms.flight_recorder._command import UNUSABLE
from pycomms.flight_recorder._inputs import add_paths, load_or_complain
from pycomms.flight_recorder._model import Flag, Record, State
from pycomms.flight_recorder._words import duration_text, group_label, payload, printable, ranks_text, size_text


@dataclass(frozen=True, kw_only=True, slots=True)
class OpStats:
    """Completed operations of one kind, size class and size of group.

    at_most: bytes; the smallest power of two that is not below the payload. mean_bytes: of one operation.
    Latency is from start to end where the start was recorded, else from issue. Bandwidths are of the median latency, in
    bytes per second; 0: not known. times_found: some of the times are when somebody looked, so latencies are too long.
    """

    kind: str
    group_size: int
    at_most: int
    count: int
    unfinished: int
    mean_bytes: float
    p50_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int
    algorithm_bandwidth: float
    bus_bandwidth: float
    times_found: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Straggler:
    """A rank that came last to collectives of a group. Lateness is against the median arrival of the group."""

    group: str
    group_size: int
    rank: int
    last: int
    compared: int
    median_late_ns: int
    max_late_ns: int


def bus_factor(kind: str, ranks: int) -> float:
    """What nccl-tests multiplies the algorithm bandwidth by to get what the slowest link carried.

    docs/PERFORMANCE.md of https://github.com/NVIDIA/nccl-tests derives them.
    """
    if ranks < 2:
        return 1.0
    if kind.startswith("all_reduce"):
        return 2 * (ranks - 1) / ranks
    if kind.startswith(("all_gather", "reduce_scatter", "all_to_all")) or kind in ("gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0


def size_class(count: int) -> int:
    return 0 if count <= 0 else 1 << (count - 1).bit_length()


_Key = tuple[str, int, int]


def op_stats(records: Sequence[Record]) -> list[OpStats]:
    """Of all ranks together, by kind, then size."""
    latencies: dict[_Key, list[Integers]] = defaultdict(list)
    unfinished: dict[_Key, int] = defaultdict(int)
    volume: dict[_Key, float] = defaultdict(float)
    found: set[_Key] = set()
    for record in records:
        entries = record.entries
        if not len(entries):
            continue
        pairs = entries["group"].astype(np.int64) * len(record.signatures) + entries["signature"]
        distinct, pair_of = np.unique(pairs, return_inverse=True)
        started = np.where(entries["started_ns"] > 0, entries["started_ns"], entries["issued_ns"])
        timed = (entries["state"] == State.COMPLETED) & (started > 0) & (entries["ended_ns"] >= started)
        open_ended = np.isin(entries["state"], (State.ISSUED, State.RUNNING))
        for position, pair in enumerate(distinct.tolist()):
            group = record.groups[pair // len(record.signatures)]
            signature = record.signatures[pair % len(record.signatures)]
            size = len(group.ranks) or record.world_size
            moved = payload(signature, size)
            key = (signature.kind, size, size_class(moved))
            here = pair_of == position
            rows = here & timed
            latencies[key].append(entries["ended_ns"][rows] - started[rows])
            volume[key] += moved * int(np.count_nonzero(rows))
            unfinished[key] += int(np.count_nonzero(here & open_ended))
            if bool((entries["flags"][rows] & Flag.TIMES_FOUND).any()):
                found.add(key)
    return [
        _summary(key, np.concatenate(parts), unfinished[key], volume[key], key in found)
        for key, parts in sorted(latencies.items())
    ]


def _summary(key: _Key, latency: Integers, unfinished: int, volume: float, times_found: bool) -> OpStats:
    kind, size, at_most = key
    # "higher": a percentile that was really measured, not one between two measurements.
    p50, p90, p99 = np.percentile(latency, (50, 90, 99), method="higher").tolist() if len(latency) else (0, 0, 0)
    mean = volume / len(latency) if len(latency) else 0.0
    bandwidth = mean / (p50 / 1e9) if p50 else 0.0
    return OpStats(
        kind=kind,
        group_size=size,
        at_most=at_most,
        count=len(latency),
        unfinished=unfinished,
        mean_bytes=mean,
        p50_ns=p50,
        p90_ns=p90,
        p99_ns=p99,
        max_ns=int(latency.max(initial=0)),
        algorithm_bandwidth=bandwidth,
        bus_bandwidth=bandwidth * bus_factor(kind, size),
        times_found=times_found,
    )


def stragglers(records: Sequence[Record]) -> list[Straggler]:
    """Who came last, most often first, group by group. Clocks of hosts are aligned first."""
    offsets = align(records).offsets_ns
    result = []
    for meeting in meetings(records):
        arrived = meeting.issued_ns + offsets[meeting.record]
        late: dict[int, list[int]] = defaultdict(list)
        compared = 0
        bounds = meeting.bounds().tolist()
        size = len(meeting.group.ranks)
        for begin, end in pairwise(bounds):
            # With somebody missing nobody knows who came last.
            if end - begin < max(size, 2) or not meeting.issued_ns[begin:end].all():
                continue
            compared += 1
            times = arrived[begin:end] - arrived[begin]  # small: a median is computed in floating point
            last = int(times.argmax())
            late[int(meeting.record[begin + last])].append(int(times[last] - np.median(times)))
        result += [
            Straggler(
                group=group_label(meeting.group),
                group_size=size,
                rank=records[number].rank,
                last=len(values),
                compared=compared,
                median_late_ns=int(np.median(values)),
                max_late_ns=max(values),
            )
            for number, values in sorted(late.items(), key=lambda item: -len(item[1]))
        ]
    return result


def text(ops: Sequence[OpStats], late: Sequence[Straggler], said: str, most: int = 5) -> str:
    """Two tables. Of each group the `most` ranks that came last most often."""
    head = ("operation", "ranks", "size", "count", "open", "p50", "p90", "p99", "max", "alg GB/s", "bus GB/s")
    body = [
        (
            printable(op.kind) + ("*" if op.times_found else ""),
            str(op.group_size or "?"),
            f"≤ {size_text(op.at_most)}" if op.at_most else "-",
            str(op.count),
            str(op.unfinished or "-"),
            *(duration_text(ns) if op.count else "-" for ns in (op.p50_ns, op.p90_ns, op.p99_ns, op.max_ns)),
            *(f"{rate / 1e9:.3g}" if rate else "-" for rate in (op.algorithm_bandwidth, op.bus_bandwidth)),
        )
        for op in ops
    ]
    lines = [*_columns(head, body)]
    if any(op.times_found for op in ops):
        lines.append("* ends were found by somebody who looked now and then: these latencies are too long.")
    lines += ["", "Who came last (late: against the median rank of the group)"]
    shown: dict[str, int] = defaultdict(int)
    rows = []
    for item in late:
        shown[item.group] += 1
        if shown[item.group] <= most:
            share = f"{item.last} of {item.compared}"
            typical, worst = duration_text(item.median_late_ns), duration_text(item.max_late_ns)
            rows.append((printable(item.group), ranks_text([item.rank]), share, typical, worst))
    lines += [*_columns(("group", "rank", "last", "late", "at most"), rows)] if rows else ["nothing to compare"]
    return "\n".join([*lines, "", said])


def _columns(head: tuple[str, ...], body: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(line[column]) for line in (head, *body)) for column in range(len(head))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, *body)
    ]


def as_json(ops: Sequence[OpStats], late: Sequence[Straggler], said: str) -> str:
    return json.dumps(
        {
            "schema": 1,
            "operations": [dataclasses.asdict(op) for op in ops],
            "stragglers": [dataclasses.asdict(item) for item in late],
            "clocks": said,
        },
        ensure_ascii=False,
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_paths(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    records = load_or_complain("stats", arguments.paths)
    if not records:
        return UNUSABLE
    show = as_json if arguments.json else text
    print(show(op_stats(records), stragglers(records), align(records).said))
    return 0
