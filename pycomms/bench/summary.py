"""The result of `pycomms bench` for people and for programs. Pure: takes the document of a run."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from pycomms.bench.blocks import Block, Figure, summarize
from pycomms.bench.plan import KIB, UNSIZED, Case, Op, format_size
from pycomms.bench.report import grid, microseconds, ratio

_BANDWIDTH_FROM = KIB
"""Bytes. Below, a time is that of a call, and a bandwidth says nothing."""
_STEADY = 1.5
_QUEUED = 0.1

Row = Mapping[str, Figure]


def rows_of(blocks: Iterable[Block]) -> list[tuple[Case, Row]]:
    """In the order in which they are shown."""
    operations = list(Op)
    found = [(case, row) for (case, _), row in summarize(blocks).items()]
    return sorted(found, key=lambda one: (one[0].ranks, operations.index(one[0].op), one[0].size))


def figures(blocks: Iterable[Block], backends: Sequence[str]) -> list[dict[str, Any]]:
    """For programs: one object for each case and backend. backends: the first is what the others are compared with."""
    return [
        {
            "op": case.op.value,
            "size": case.size,
            "ranks": case.ranks,
            "backend": name,
            "median_us": own.median_us,
            "min_us": own.min_us,
            "quartiles_us": [own.low_us, own.high_us],
            "turns": own.blocks,
            "ratio": own.median_us / row[backends[0]].median_us if backends[0] in row else None,
            "gb_per_s": None if case.op in UNSIZED else case.size / own.median_us / 1000,
        }
        for case, row in rows_of(blocks)
        for name, own in row.items()
    ]


def render(document: Mapping[str, Any]) -> list[str]:
    """All of it as text."""
    blocks = [Block.from_json(raw) for raw in document["blocks"]]
    lines = heading(document)
    lines += tables(rows_of(blocks), document["backends"])
    lines += remarks(blocks, document)
    if document["notes"]:
        lines += ["", "notes:"]
        for note in document["notes"]:
            about = " ".join(part for part in (note["contestant"], note["case"]) if part)
            lines += [f"  {line}" for line in f"{about}: {note['text']}".splitlines()]
    return lines


def heading(document: Mapping[str, Any]) -> list[str]:
    machine = document["machine"]
    cores = f"{machine['cores']} core{'s' if machine['cores'] > 1 else ''}"
    if machine["quota"] is not None:
        cores += f", of which this container may use the time of {machine['quota']:g}"
    tensors = "CPU tensors" if document["device"] == "cpu" else "tensors on GPUs, each rank's on its own"
    return [
        f"pycomms {document['pycomms']}, torch {document['torch']}, Python {machine['python']}",
        f"{machine['cpu']}, {cores}, Linux {machine['kernel']}",
        f"{tensors}, float32; {document['started']}, {document['seconds']:.0f} s",
    ]


def tables(rows: Sequence[tuple[Case, Row]], backends: Sequence[str]) -> list[str]:
    """One for each operation and number of ranks."""
    lines: list[str] = []
    for (op, where), group in groupby(rows, key=lambda one: (one[0].op, one[0].where)):
        cells = list(group)
        shown = [name for name in backends if any(name in row for _, row in cells)]
        header = [""]
        for name in shown:
            header += [f"{name} us", *([] if name == shown[0] else ["ratio"]), *([] if op in UNSIZED else ["GB/s"])]
        texts = [[_size(case), *_texts(case, row, shown)] for case, row in cells]
        lines += ["", f"{op.value}, {where}", *grid(header, texts)]
    return lines


def _size(case: Case) -> str:
    return "" if case.op in UNSIZED else format_size(case.size)


def _texts(case: Case, row: Row, shown: Sequence[str]) -> list[str]:
    base = row.get(shown[0])
    texts: list[str] = []
    for name in shown:
        own = row.get(name)
        texts.append("-" if own is None else ("" if is_steady(own) else "~") + microseconds(own.median_us))
        if name != shown[0]:
            texts.append("-" if own is None or base is None else ratio(own.median_us, base.median_us))
        if case.op not in UNSIZED:
            has_bandwidth = own is not None and case.size >= _BANDWIDTH_FROM
            texts.append(bandwidth(case.size, own.median_us) if own is not None and has_bandwidth else "-")
    return texts


def bandwidth(size: int, us: float) -> str:
    """GB/s, of two digits or what stands before the point."""
    rate = size / us / 1000
    return f"{rate:.0f}" if rate >= 10 else f"{rate:.1f}" if rate >= 1 else f"{rate:.2g}"


def is_steady(own: Figure) -> bool:
    """Whether the middle half of the turns is of about one time."""
    return own.high_us <= _STEADY * own.low_us


def least_queued(blocks: Sequence[Block]) -> float:
    """The share of time that ranks waited for a core, of the backend that waited least: others have threads of their
    own that they wait for. At least one block."""
    names = {block.contestant for block in blocks}
    return min(statistics.median(block.queued for block in blocks if block.contestant == name) for name in names)


def remarks(blocks: Sequence[Block], document: Mapping[str, Any]) -> list[str]:
    """What a reader must know before he believes the figures."""
    cores = document["machine"]["cores"]
    found = []
    if any(not is_steady(own) for _, row in rows_of(blocks) for own in row.values()):
        found.append(f"~  not steady: the middle half of its turns spans more than {_STEADY:g} times")
    for ranks in sorted({block.case.ranks for block in blocks}):
        if ranks > cores:
            found.append(
                f"{ranks} ranks share {cores} core{'s' if cores > 1 else ''}: their times are the scheduler's as well"
            )
            continue
        queued = least_queued([block for block in blocks if block.case.ranks == ranks])
        if queued > _QUEUED:
            found.append(
                f"{ranks} ranks waited for a core {queued:.0%} of the time: something else runs on this machine"
            )
    if document["device"] == "cpu" and document["gpus"] > 1:
        found.append(f"{document['gpus']} GPUs are here: --device cuda compares with nccl")
    return ["", *found] if found else []
