"""The tables of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bench.recovery.trials import STAGES, Figure, Row, Section, Trial, summarize

_TITLES = {
    Section.KILL: "A rank is killed in the middle of an all_reduce (ms: median / worst)",
    Section.JOIN: "A booted rank joins (ms: median / worst)",
}


def render(document: Mapping[str, Any]) -> list[str]:
    rows = summarize(Trial.from_json(raw) for raw in document["trials"])
    lines: list[str] = []
    for section in Section:
        chosen = [row for row in rows if row.setup.section is section]
        if chosen:
            lines += ["", _TITLES[section], *_table(section, chosen)]
    failures = {(raw["contestant"], raw["failure"]) for raw in document["trials"] if raw["failure"]}
    lines += [f"failed: {contestant}: {text}" for contestant, text in sorted(failures)]
    return lines


def _table(section: Section, rows: Iterable[Row]) -> list[str]:
    head = ["contestant", "ranks", "resident", "trials", *(stage.value for stage in STAGES[section]), "total"]
    body = [head]
    for row in rows:
        count = str(row.trials) if not row.failed else f"{row.trials - row.failed} of {row.trials}"
        cells = [_cell(row.stages.get(stage)) for stage in STAGES[section]]
        setup = row.setup
        body.append([setup.contestant, str(setup.ranks), _bytes(setup.resident), count, *cells, _cell(row.total)])
    widths = [max(len(line[column]) for line in body) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in body]


def _cell(figure: Figure | None) -> str:
    return "-" if figure is None else f"{_ms(figure.median_ms)} / {_ms(figure.worst_ms)}"


def _ms(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def _bytes(count: int) -> str:
    return f"{count / (1 << 30):g} GiB" if count else "-"
