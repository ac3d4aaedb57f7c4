"""The time line of a run as a picture: a lane for each rank, with its steps per second, its pauses, and the faults.

SVG, without a script. Times are the log's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from pycomms.chaos._report.facts import Happening, story
from pycomms.chaos.core.log import Log

WIDTH, LANE, LEFT, TOP = 1160, 46, 80, 26
_BINS = 240
_MARKS = {"fault": "▼", "over": "△", "gone": "✕", "came": "●", "settled": "◆", "not-injected": "?"}
_TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)


@dataclass(frozen=True, kw_only=True)
class _Scale:
    begin: float
    end: float

    def x(self, t: float) -> float:
        share = (t - self.begin) / (self.end - self.begin)
        return LEFT + min(max(share, 0.0), 1.0) * (WIDTH - LEFT - 10)


def timeline(log: Log) -> str:
    """Empty where no worker was seen."""
    ranks = sorted({process.rank for process in log.processes})
    if not ranks or log.end is None:
        return ""
    # Before the first worker came nothing is to be seen but how long an import takes.
    begin = min(process.came for process in log.processes)
    scale = _Scale(begin=begin, end=max(log.end["t"], begin + 0.001))
    has_job = any(one.rank < 0 and one.kind in _MARKS for one in story(log))
    lanes = [*([-1] if has_job else []), *ranks]
    height = TOP + LANE * len(lanes) + 10
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="time line of {len(ranks)} ranks">',
        *_axis(scale, height),
    ]
    for number, rank in enumerate(lanes):
        parts += _lane(log, rank, TOP + LANE * number, scale)
    return "\n".join([*parts, "</svg>"])


def _axis(scale: _Scale, height: int) -> Iterator[str]:
    span = scale.end - scale.begin
    every = next((tick for tick in _TICKS if span / tick <= 12), _TICKS[-1])
    number = int(scale.begin / every) + 1
    while number * every < scale.end:
        x = scale.x(number * every)
        yield f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{height}"/>'
        yield f'<text class="tick" x="{x:.1f}" y="{TOP - 10}">{number * every:g} s</text>'
        number += 1


def _lane(log: Log, rank: int, top: int, scale: _Scale) -> Iterator[str]:
    base = top + LANE - 8
    name = f"rank {rank}" if rank >= 0 else "job"
    yield f'<text class="name" x="4" y="{base - 8}">{name}</text>'
    yield f'<line class="base" x1="{LEFT}" x2="{WIDTH - 10}" y1="{base}" y2="{base}"/>'
    if rank >= 0:
        yield from _lives(log, rank, base, scale)
        yield from _bars(_steps_of(log, rank), base, scale)
        yield from _standing(log, rank, base, scale)
    for one in story(log):
        if one.rank == rank and one.kind in _MARKS:
            yield _mark(one, base, scale)


def _lives(log: Log, rank: int, base: int, scale: _Scale) -> Iterator[str]:
    for process in log.processes:
        if process.rank == rank:
            end = process.went if process.went is not None else scale.end
            width = scale.x(end) - scale.x(process.came)
            yield f'<rect class="life" x="{scale.x(process.came):.1f}" y="{base}" width="{width:.1f}" height="3"/>'


def _steps_of(log: Log, rank: int) -> list[float]:
    taken = [one.t for one in log.commits if one.rank == rank]
    return taken or [one["t"] for one in log.of("step") if one["rank"] == rank]


def _bars(times: Sequence[float], base: int, scale: _Scale) -> Iterator[str]:
    """Steps per second; the height is relative to the rank's own best."""
    width = (scale.end - scale.begin) / _BINS
    edges = [scale.begin + number * width for number in range(_BINS + 1)]
    places = [bisect_left(times, edge) for edge in edges]
    counts = [after - before for before, after in pairwise(places)]
    most = max(counts, default=0)
    for number, count in enumerate(counts):
        if count:
            tall = (LANE - 16) * count / most
            x, wide = scale.x(edges[number]), scale.x(edges[number + 1]) - scale.x(edges[number])
            tip = f"{count / width:.0f} steps/s at {edges[number]:.2f} s"
            yield (
                f'<rect class="steps" x="{x:.1f}" y="{base - tall:.1f}" width="{wide:.2f}" height="{tall:.1f}">'
                f"<title>{tip}</title></rect>"
            )


def _standing(log: Log, rank: int, base: int, scale: _Scale) -> Iterator[str]:
    """From a failure to the group that trains on."""
    since: float | None = None
    for event in log.of("point"):
        if event["rank"] != rank:
            continue
        if event["point"] in ("standing", "joining") and since is None:
            since = event["t"]
        elif event["point"] == "settled" and since is not None:
            x, wide = scale.x(since), max(scale.x(event["t"]) - scale.x(since), 1.0)
            tip = f"{1e3 * (event['t'] - since):.0f} ms: {event['reason']}"
            yield (
                f'<rect class="standing" x="{x:.1f}" y="{base - LANE + 16}" width="{wide:.1f}" height="{LANE - 16}">'
                f"<title>{escape(tip)}</title></rect>"
            )
            since = None


def _mark(one: Happening, base: int, scale: _Scale) -> str:
    y = base - LANE + 16 if one.kind in ("fault", "over", "not-injected") else base + 2
    return (
        f'<text class="mark {one.kind}" x="{scale.x(one.t):.1f}" y="{y}">{_MARKS[one.kind]}'
        f"<title>{one.t:.3f} s: {escape(one.text)}</title></text>"
    )
