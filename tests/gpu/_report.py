"""What a run found, as a table, as JSON and as an exit code. Pure data: no torch, no processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any

_SHOWN = 6  # failures of an area; the JSON has all
_LINES = 14  # of a failure


class ExitCode(IntEnum):
    PASSED = 0
    FAILED = 1  # a check failed
    USAGE = 2  # wrong arguments, by argparse
    NO_GPU = 3  # torch sees none, and --emulated was not given
    CANNOT_BUILD = 4  # something that is needed is missing, or the extension does not compile
    OUT_OF_TIME = 5  # nothing failed, but an area did not get through in its time
    INTERRUPTED = 130  # Ctrl-C, or SIGTERM


@dataclass(kw_only=True)
class AreaReport:
    name: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # with the reasons
    out_of_time: list[str] = field(default_factory=list)  # what was not reached
    seconds: float = 0.0
    figures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def notes(self) -> str:
        """The reasons, each once."""
        parts = [reason if count == 1 else f"{count} x {reason}" for reason, count in Counter(self.skipped).items()]
        if self.out_of_time:
            parts.append("out of time: " + "; ".join(self.out_of_time))
        return "; ".join(parts)


@dataclass(kw_only=True)
class Report:
    machine: dict[str, Any] = field(default_factory=dict)
    areas: list[AreaReport] = field(default_factory=list)

    def exit_code(self) -> ExitCode:
        if any(area.failed for area in self.areas):
            return ExitCode.FAILED
        if any(area.out_of_time for area in self.areas):
            return ExitCode.OUT_OF_TIME
        return ExitCode.PASSED

    def to_json(self) -> dict[str, Any]:
        areas = [
            {**asdict(area), "passed": area.passed, "failed": len(area.failed), "failures": area.failed}
            for area in self.areas
        ]
        return {"machine": self.machine, "exit_code": int(self.exit_code()), "areas": areas}

    def text(self) -> str:
        parts = [_failures(area) for area in self.areas if area.failed]
        parts += [_figures(area.figures) for area in self.areas if area.figures]
        parts.append(_table(self.areas))
        return "\n\n".join(parts)


def _table(areas: Iterable[AreaReport]) -> str:
    rows: list[tuple[str, ...]] = [("area", "passed", "failed", "skipped", "seconds", "notes")]
    rows += [
        (a.name, str(a.passed), str(len(a.failed)), str(len(a.skipped)), f"{a.seconds:.1f}", a.notes) for a in areas
    ]
    return _aligned(rows, left=(0, 5))


def _aligned(rows: list[tuple[str, ...]], left: tuple[int, ...]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _failures(area: AreaReport) -> str:
    shown = [f"* {_shortened(text)}" for text in area.failed[:_SHOWN]]
    if len(area.failed) > _SHOWN:
        shown.append(f"* and {len(area.failed) - _SHOWN} more")
    return "\n".join([f"{area.name}: {len(area.failed)} failed", *shown])


def _shortened(text: str) -> str:
    """The beginning says what failed, the end how."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > _LINES:
        lines = [*lines[:2], "...", *lines[3 - _LINES :]]
    return "\n    ".join(lines)


def _figures(figures: list[dict[str, Any]]) -> str:
    """A row for each measurement: ours, and how many times theirs it takes."""
    rows: list[tuple[str, ...]] = [("what", "bytes", "ours us", "ours GB/s", "theirs us", "ours / theirs")]
    for one in figures:
        theirs = "  ".join(f"{name} {value:.1f}" for name, value in one["theirs_us"].items())
        ratios = "  ".join(f"{name} {one['ours_us'] / value:.2f}" for name, value in one["theirs_us"].items() if value)
        speed = f"{one['gb_per_s']:.2f}" if "gb_per_s" in one else ""
        rows.append((one["what"], str(one["bytes"]), f"{one['ours_us']:.1f}", speed, theirs, ratios))
    return _aligned(rows, left=(0, 4, 5))
