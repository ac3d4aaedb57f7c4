"""The wait-for graph as a drawing: who is stuck in what, and who is not there.

Ranks that are stuck in the same operation are one box, so that 1,000 ranks fit. Boxes stand in columns by how far they
are from a root cause, which is at the right. The result is SVG, as text, with a text alternative. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from pycomms.flight_recorder._markup import safe
from pycomms.flight_recorder._words import group_label, ranks_text
from pycomms.flight_recorder.analysis import Analysis, Verdict

MOST_BOXES = 48
"""More than a person can follow; those nearest to a root cause stay."""

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _MARGIN = 276, 58, 96, 22, 14
_OUT = 44  # how far an arrow that goes back leaves its box


@dataclass(frozen=True, kw_only=True)
class Box:
    """Ranks in one situation. waits_for: indices of other boxes. is_root: marked as a root cause."""

    title: str
    ranks: tuple[int, ...]
    note: str
    is_root: bool
    waits_for: frozenset[int] = frozenset()


def boxes(analysis: Analysis) -> list[Box]:
    """Those who wait, by the operation they are stuck in; then those they wait for who wait for nobody."""
    roots = {rank for finding in analysis.findings for rank in finding.root_ranks}
    stuck: dict[tuple[str, str, int, bool], set[int]] = defaultdict(set)
    targets: dict[tuple[str, str, int, bool], set[int]] = defaultdict(set)
    for edge in analysis.edges:
        key = (group_label(edge.group), edge.op.kind, edge.op.sequence, edge.waiter in roots)
        stuck[key].add(edge.waiter)
        targets[key].update(edge.waits_for)
    waiters = {edge.waiter for edge in analysis.edges}
    free = {rank for some in targets.values() for rank in some} - waiters
    causes = [(tuple(sorted(free & roots)), True), (tuple(sorted(free - roots)), False)]
    causes = [(ranks, is_root) for ranks, is_root in causes if ranks]
    members = [*(frozenset(ranks) for ranks in stuck.values()), *(frozenset(ranks) for ranks, _ in causes)]
    found: list[Box] = []
    for (label, kind, sequence, is_root), waiting in stuck.items():
        wanted = targets[label, kind, sequence, is_root]
        own = len(found)
        found.append(
            Box(
                title=f"{kind} {label}[{sequence}]",
                ranks=tuple(sorted(waiting)),
                note=f"{_count(len(waiting))} here",
                is_root=is_root,
                waits_for=frozenset(n for n, some in enumerate(members) if n != own and some & wanted),
            )
        )
    absent = set(analysis.absent_ranks)
    died = {rank for some in analysis.findings if some.verdict is Verdict.RANK_DIED for rank in some.root_ranks}
    for ranks, is_root in causes:
        note = "waits for nobody" if len(ranks) == 1 else "wait for nobody"
        note = "died" if set(ranks) <= died else "no record" if set(ranks) <= absent else note
        found.append(
            Box(title=f"rank{'s' * (len(ranks) > 1)} {ranks_text(ranks, 4)}", ranks=ranks, note=note, is_root=is_root)
        )
    return found


def _count(ranks: int) -> str:
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


def columns(found: list[Box]) -> list[int]:
    """For each box its distance from the nearest cause; the boxes of a deadlock, which has none, follow each other."""
    distance: dict[int, int] = {n: 0 for n, box in enumerate(found) if not box.waits_for}
    if not distance:
        distance = {n: 0 for n, box in enumerate(found) if box.is_root} or ({0: 0} if found else {})
        if len(distance) > 1 and len(distance) == len(found):
            return [*range(len(found))][::-1]  # nothing but a cycle: one after the other
    edge = [*distance]
    while edge:
        reached = [n for n, box in enumerate(found) if n not in distance and box.waits_for & set(edge)]
        distance.update((n, distance[next(iter(found[n].waits_for & set(edge)))] + 1) for n in reached)
        edge = reached
    far = max(distance.values(), default=0) + 1
    return [distance.get(n, far) for n in range(len(found))]


def sentences(found: list[Box]) -> list[str]:
    """The drawing in words, root causes first."""
    lines = []
    for box in sorted(found, key=lambda box: not box.is_root):
        mark = "Root cause: " if box.is_root else ""
        if box.waits_for:
            wanted = "; ".join(found[n].title for n in sorted(box.waits_for))
            lines.append(
                f"{mark}rank{'s' * (len(box.ranks) > 1)} {ranks_text(box.ranks)} in {box.title} wait for {wanted}."
            )
        else:
            lines.append(f"{mark}{box.title} {box.note}.")
    return lines


def draw(analysis: Analysis) -> tuple[str, list[str], str]:
    """SVG, the same in words, and what was left out. All empty when nobody waits for anybody else."""
    found = boxes(analysis)
    if not any(box.waits_for for box in found):
        return "", [], ""  # all are in one operation and disagree: there is nothing to draw
    column = columns(found)
    order = sorted(range(len(found)), key=lambda n: (column[n], not found[n].is_root, -len(found[n].ranks)))
    shown = order[:MOST_BOXES]
    left_out = (
        f"{len(order) - len(shown)} more groups of waiting ranks are not drawn." if len(order) > len(shown) else ""
    )
    places, width, height = _places(shown, column)
    ends = [(places[n], places[to]) for n in shown for to in sorted(found[n].waits_for) if to in places]
    arrows = [_arrow(start, end) for start, end in ends]
    left = top = 0
    if any(_goes_back(start, end) for start, end in ends):
        left, top, width, height = -_OUT, -_DOWN, width + 2 * _OUT, height + _DOWN
    drawn = [_box(found[n], *places[n]) for n in shown]
    words = sentences([*found])
    svg = (
        f'<svg class="graph" viewBox="{left} {top} {width} {height}" width="{width}" height="{height}" role="img"'
        f' style="min-width:{min(width, 720)}px"'
        ' aria-labelledby="graph-title graph-text"><title id="graph-title">Wait-for graph</title>'
        f'<desc id="graph-text">{safe(" ".join(words[:20]))}</desc>'
        '<defs><marker id="arrowhead" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto">'
        '<path d="M0 0.5 L8 4 L0 7.5 z" class="arrowhead"/></marker></defs>'
        f"{''.join(arrows)}{''.join(drawn)}</svg>"
    )
    return svg, words, left_out


def _places(shown: Iterable[int], column: list[int]) -> tuple[dict[int, tuple[int, int]], int, int]:
    """Left upper corners; causes at the right, each column in the middle of the height."""
    by_column: dict[int, list[int]] = defaultdict(list)
    for n in shown:
        by_column[column[n]].append(n)
    # Close up columns that are empty because their boxes were left out.
    ranked = {old: new for new, old in enumerate(sorted(by_column))}
    tallest = max(map(len, by_column.values()))
    height = tallest * (_HEIGHT + _DOWN) - _DOWN + 2 * _MARGIN
    width = len(ranked) * (_WIDTH + _ACROSS) - _ACROSS + 2 * _MARGIN
    places = {}
    for old, members in by_column.items():
        left = width - _MARGIN - _WIDTH - ranked[old] * (_WIDTH + _ACROSS)
        top = (height - (len(members) * (_HEIGHT + _DOWN) - _DOWN)) // 2
        for place, n in enumerate(members):
            places[n] = (left, top + place * (_HEIGHT + _DOWN))
    return places, width, height


def _goes_back(start: tuple[int, int], end: tuple[int, int]) -> bool:
    return end[0] < start[0] + _WIDTH


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + _WIDTH, start[1] + _HEIGHT // 2
    x2, y2 = end[0] - 2, end[1] + _HEIGHT // 2
    if not _goes_back(start, end):
        middle = (x1 + x2) // 2
        path = f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
    else:  # backwards or in the same column: around the outside
        above = min(start[1], end[1]) - _DOWN + 6
        right, left = x1 + _OUT - 4, x2 - _OUT + 8
        path = (
            f"M{x1} {y1} C{right} {y1} {right} {above} {x1} {above} L{x2} {above} C{left} {above} {left} {y2} {x2} {y2}"
        )
    return f'<path class="arrow" d="{path}" marker-end="url(#arrowhead)"/>'


def _box(box: Box, x: int, y: int) -> str:
    kind = "box root" if box.is_root else "box"
    title = box.title if len(box.title) <= 34 else box.title[:33] + "…"
    who = f"rank{'s' * (len(box.ranks) > 1)} {ranks_text(box.ranks, 3)}"
    under = f"{who} wait{'s' * (len(box.ranks) == 1)}" if box.waits_for else box.note
    mark = (
        f'<text class="mark" x="{x + _WIDTH - 10}" y="{y + 15}" text-anchor="end">root cause</text>'
        if box.is_root
        else ""
    )
    shift = 8 if box.is_root else 0
    return (
        f'<g class="{kind}"><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>{mark}'
        f'<text class="what" x="{x + 12}" y="{y + 25 + shift}">{safe(title)}</text>'
        f'<text class="who" x="{x + 12}" y="{y + 43 + shift // 2}">{safe(under)}</text></g>'
    )
