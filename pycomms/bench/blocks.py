"""Blocks and what is concluded from them. Pure: no clock, process or file.

A block is one contestant's turn in a round: a few milliseconds of samples, bracketed by placement probes. The figure of
a block is the median (and the least) of its samples; the figure of a case is the median of its blocks of one placement,
so every round counts alike, whatever number of samples fitted in.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pycomms.bench.placement import Placement
from pycomms.bench.plan import Case, Op
from pycomms.bench.protocol import Reply


@dataclass(frozen=True, kw_only=True)
class Block:
    """One series of one contestant in one round. Times in microseconds per operation."""

    case: Case
    contestant: str
    series: str  # name of the variant, "" for the only one
    round: int
    placement: Placement
    probe_ns: tuple[float | None, float | None]
    samples: int
    median_us: float
    min_us: float
    queued: float  # share of the block's time that the ranks' threads waited for a core, of the worst rank

    def to_json(self) -> dict[str, Any]:
        raw = dict(vars(self))
        case = raw.pop("case")
        where = {"ranks": case.ranks, "hosts": case.hosts}
        return {"op": case.op.value, "size": case.size, **where, **raw, "placement": self.placement.value}

    @staticmethod
    def from_json(raw: dict[str, Any]) -> Block:
        rest = dict(raw)
        hosts = rest.pop("hosts", 1)  # a file of before there were several
        case = Case(op=Op(rest.pop("op")), size=rest.pop("size"), ranks=rest.pop("ranks"), hosts=hosts)
        rest["placement"] = Placement(rest["placement"])
        before, after = rest["probe_ns"]
        rest["probe_ns"] = (before, after)
        return Block(case=case, **rest)


def slowest(per_rank: Sequence[Sequence[float]]) -> list[float]:
    """The ranks' samples as one list: an operation has ended when its slowest rank has."""
    return [max(sample) for sample in zip(*per_rank, strict=True)]


def make_blocks(
    case: Case,
    contestant: str,
    turn: int,
    placement: Placement,
    probe_ns: tuple[float | None, float | None],
    replies: Sequence[Reply],
) -> list[Block]:
    """The blocks, one per series, of one turn; the replies are of all ranks."""
    queued = max((r.queued_ns / r.wall_ns for r in replies if r.wall_ns > 0), default=0.0)
    blocks = []
    for name in replies[0].series:
        samples = slowest([reply.series[name] for reply in replies])
        blocks.append(
            Block(
                case=case,
                contestant=contestant,
                series=name,
                round=turn,
                placement=placement,
                probe_ns=probe_ns,
                samples=len(samples),
                median_us=statistics.median(samples),
                min_us=min(samples),
                queued=round(queued, 4),
            )
        )
    return blocks


@dataclass(frozen=True, kw_only=True)
class Figure:
    """What is known of one (case, placement, column)."""

    median_us: float
    min_us: float
    low_us: float  # quartiles of the blocks' medians
    high_us: float
    blocks: int
    queued: float  # median over the blocks
    variant: str  # the series that it is of


def figure(blocks: Sequence[Block]) -> Figure:
    """The figure of blocks of one series and one placement; at least one block."""
    medians = sorted(block.median_us for block in blocks)
    low, high = quartiles(medians)
    return Figure(
        median_us=statistics.median(medians),
        min_us=min(block.min_us for block in blocks),
        low_us=low,
        high_us=high,
        blocks=len(medians),
        queued=statistics.median(block.queued for block in blocks),
        variant=blocks[0].series,
    )


def quartiles(ordered: Sequence[float]) -> tuple[float, float]:
    """First and third quartile of sorted values; the value itself when there is one."""
    if len(ordered) == 1:
        return ordered[0], ordered[0]
    first, _, third = statistics.quantiles(ordered, n=4, method="inclusive")
    return first, third


def column(block: Block) -> str:
    """The column of the results that a block belongs to: variants of one kind of limit share one."""
    if not block.series:
        return block.contestant
    kind = block.series.partition("/")[0]
    return f"{block.contestant}: {kind}"


Cell = tuple[Case, Placement]


def summarize(blocks: Iterable[Block]) -> dict[Cell, dict[str, Figure]]:
    """Figures by (case, placement) and column. Dropped blocks are left out; near and far are never pooled.

    Where several variants share a column, the one with the best median stands for it.
    """
    groups: dict[tuple[Cell, str, str], list[Block]] = {}
    for block in blocks:
        if block.placement is not Placement.MIXED:
            groups.setdefault(((block.case, block.placement), column(block), block.series), []).append(block)
    table: dict[Cell, dict[str, Figure]] = {}
    for (cell, name, _), members in groups.items():
        found = figure(members)
        row = table.setdefault(cell, {})
        if name not in row or found.median_us < row[name].median_us:
            row[name] = found
    return table


@dataclass(frozen=True, kw_only=True)
class Tally:
    """How many turns were kept and dropped."""

    near: int = 0
    far: int = 0
    unprobed: int = 0
    mixed: int = 0

    @staticmethod
    def of(blocks: Iterable[Block]) -> Tally:
        turns = {(b.case, b.contestant, b.round): b.placement for b in blocks}
        counts = dict.fromkeys(Placement, 0)
        for placement in turns.values():
            counts[placement] += 1
        return Tally(
            near=counts[Placement.NEAR],
            far=counts[Placement.FAR],
            unprobed=counts[Placement.UNKNOWN],
            mixed=counts[Placement.MIXED],
        )


def enough(blocks: Iterable[Block], contestants: Iterable[str], wanted: int) -> bool:
    """Whether there is a placement of which every contestant has `wanted` blocks of this case."""
    turns = {(b.contestant, b.round, b.placement) for b in blocks if b.placement is not Placement.MIXED}
    return any(
        all(sum(1 for c, _, p in turns if c == name and p is placement) >= wanted for name in contestants)
        for placement in (Placement.NEAR, Placement.FAR, Placement.UNKNOWN)
    )
