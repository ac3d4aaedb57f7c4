"""Results as text: one table per operation, world size and placement. Pure: takes results, returns lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from pycomms.bench.blocks import Block, Cell, Figure, Tally, summarize
from pycomms.bench.placement import Placement
from pycomms.bench.plan import BANDWIDTH, UNSIZED, Op, format_size

#: Columns in this order; what is not named here follows in alphabetical order.
ORDER = (
    *("pycomms", "nccl2", "nccl", "builtin_nccl2", "gloo", "mpich", "openmpi", "impi", "oneccl", "empty"),
    *("limits: staged", "limits: direct", "sockets"),
)

TORCH_BACKENDS = ("nccl2", "gloo")


def ordered(columns: set[str]) -> list[str]:
    known = [name for name in ORDER if name in columns]
    return known + sorted(columns - set(known))


def microseconds(us: float) -> str:
    """Three digits, as far as there are three."""
    if us >= 100:
        return f"{us:,.0f}"
    return f"{us:.1f}" if us >= 10 else f"{us:.2f}"


def ratio(peer: float, base: float) -> str:
    """How many times the base's time the peer takes."""
    times = peer / base
    if times >= 10:
        return f"{times:.0f}x"
    return f"{times:.1f}x" if times >= 2 else f"{times:.2f}x" if times >= 0.1 else f"{times:.1g}x"


def cell_text(name: str, row: Mapping[str, Figure], base: str) -> str:
    """'median [min]', and for everybody but the base the ratio of the medians."""
    if name not in row:
        return "-"
    own = row[name]
    text = f"{microseconds(own.median_us)} [{microseconds(own.min_us)}]"
    if name != base and base in row:
        text += f" {ratio(own.median_us, row[base].median_us)}"
    return text


def against_limits(row: Mapping[str, Figure], base: str) -> dict[str, str]:
    """What a torch backend adds to the floor of a call, and how that compares with the limits."""
    if base not in TORCH_BACKENDS or base not in row or "empty" not in row:
        return {}
    added = row[base].median_us - row["empty"].median_us
    found = {"over floor": f"+{microseconds(max(0.0, added))}"}
    for kind in ("staged", "direct"):
        limit = row.get(f"limits: {kind}")
        if limit is not None:
            found[f"/ {kind}"] = ratio(max(0.0, added), limit.median_us)
    return found


def bandwidth_text(name: str, row: Mapping[str, Figure], size: int) -> str:
    """'median us, bandwidth in GB/s'."""
    if name not in row:
        return "-"
    return f"{microseconds(row[name].median_us)}, {size / row[name].median_us / 1000:.1f} GB/s"


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns aligned to the right."""
    widths = [max(len(line[i]) for line in [header, *rows]) for i in range(len(header))]
    return ["  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)) for line in [header, *rows]]


def tables(summary: Mapping[Cell, Mapping[str, Figure]], base: str | None) -> list[str]:
    """All tables. `base` is the contestant that others are compared with; by default the first that has figures."""
    lines: list[str] = []
    operations = list(Op)

    def key(cell: Cell) -> tuple[int, int, int, str]:
        case, placement = cell
        return case.hosts, case.ranks, operations.index(case.op), placement.value

    for _, group in groupby(sorted(summary, key=lambda cell: (*key(cell), cell[0].size)), key=key):
        cells = list(group)
        case, placement = cells[0]
        columns = ordered({name for cell in cells for name in summary[cell]})
        compared = base if base in columns else columns[0]
        sizes = ["" if case.op in UNSIZED else format_size(cell[0].size) for cell in cells]
        title = f"{case.op.value}, {case.where}, {placement.value}: us, median"
        if case.op in BANDWIDTH:
            rows = [[bandwidth_text(name, summary[cell], cell[0].size) for name in columns] for cell in cells]
        else:
            title += f" [min]; x = times {compared}"
            rows = [[cell_text(name, summary[cell], compared) for name in columns] for cell in cells]
            extra = [against_limits(summary[cell], compared) for cell in cells]
            headings = [h for h in ("over floor", "/ staged", "/ direct") if any(h in texts for texts in extra)]
            columns = columns + headings
            rows = [[*row, *(texts.get(h, "-") for h in headings)] for row, texts in zip(rows, extra, strict=True)]
        rows = [[size, *row] for size, row in zip(sizes, rows, strict=True)]
        lines += ["", title]
        lines += grid(["", *columns], rows)
    return lines


def variants(summary: Mapping[Cell, Mapping[str, Figure]]) -> list[str]:
    """Which way of each limit was the best."""
    found = [
        f"  {case.label}, {placement.value}: {figure.variant}"
        for (case, placement), row in summary.items()
        for figure in row.values()
        if "/" in figure.variant
    ]
    return ["", "best ways of the limits:", *found] if found else []


def load(blocks: Sequence[Block]) -> list[str]:
    """How long ranks waited for a core while they were measured: foreign load, or their own threads' competition."""
    by_contestant: dict[tuple[str, str], list[float]] = {}
    for block in blocks:
        by_contestant.setdefault((block.case.where, block.contestant), []).append(block.queued)
    worst = [
        f"  {name}, {where}: median {sorted(shares)[len(shares) // 2]:.1%}, worst {max(shares):.0%}"
        for (where, name), shares in sorted(by_contestant.items())
    ]
    return ["", "share of time in the run queue (foreign load, or a contestant's own threads):", *worst]


def render(document: Mapping[str, Any], base: str | None, *, details: bool) -> list[str]:
    """The report of a file written by `run`."""
    blocks = [Block.from_json(raw) for raw in document["blocks"]]
    summary = summarize(blocks)
    tally = Tally.of(blocks)
    machine = document["machine"]
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['kernel']}; {document['started']}",
        f"pinning: {document['pinning']}",
        "contestants: " + "; ".join(f"{name} ({version})" for name, version in document["versions"].items()),
        f"blocks: {tally.near} near, {tally.far} far"
        + (f", {tally.unprobed} unprobed" if tally.unprobed else "")
        + f"; {tally.mixed} dropped, for their two probes disagree",
    ]
    if document["notes"]:
        lines += ["notes:", *(f"  {n['contestant']} {n['case']}: {n['text']}".rstrip() for n in document["notes"])]
    lines += tables(summary, base)
    if details:
        lines += variants(summary) + load(blocks)
    return lines


def probes(blocks: Sequence[Block], placement: Placement) -> tuple[float, float] | None:
    """The least and the greatest probe of a placement, in nanoseconds."""
    seen = [ns for b in blocks if b.placement is placement for ns in b.probe_ns if ns is not None]
    return (min(seen), max(seen)) if seen else None
