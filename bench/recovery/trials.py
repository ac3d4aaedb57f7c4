"""What one trial measured, and what is concluded from many. Pure: no clock, process or file.

A trial is one recovery. Its stages follow each other, each ends when the last rank has passed it, and together they are
the whole. All times come from CLOCK_MONOTONIC, which all processes of a host share.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Section(Enum):
    KILL = "kill"
    JOIN = "join"


class Stage(Enum):
    """In their order."""

    NOTICED = "noticed"  # kill -> every survivor has raised (a job that is restarted: every old rank has ended)
    COORDINATED = "coordinated"  # -> every rank has been told who is in (restarted: is a process that has torch)
    REGROUPED = "regrouped"  # -> every rank has the new group
    VERIFIED = "verified"  # -> every rank has the right result of an all_reduce


STAGES: Mapping[Section, Sequence[Stage]] = {
    Section.KILL: list(Stage),
    Section.JOIN: [Stage.COORDINATED, Stage.REGROUPED, Stage.VERIFIED],
}


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a trial was of. Resident: bytes that every rank has touched, beside what it needs."""

    section: Section
    contestant: str
    ranks: int
    resident: int


@dataclass(frozen=True, kw_only=True)
class Trial:
    """`stages_ms` is empty when it failed, and `failure` says how."""

    setup: Setup
    number: int
    stages_ms: Mapping[Stage, float]
    failure: str = ""

    @property
    def total_ms(self) -> float:
        return sum(self.stages_ms.values())

    def to_json(self) -> dict[str, Any]:
        stages = {stage.value: round(ms, 4) for stage, ms in self.stages_ms.items()}
        setup = {**vars(self.setup), "section": self.setup.section.value}
        return {**setup, "number": self.number, "stages_ms": stages, "failure": self.failure}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Trial:
        setup = Setup(
            section=Section(raw["section"]),
            contestant=raw["contestant"],
            ranks=raw["ranks"],
            resident=raw["resident"],
        )
        stages = {Stage(name): ms for name, ms in raw["stages_ms"].items()}
        return Trial(setup=setup, number=raw["number"], stages_ms=stages, failure=raw["failure"])


def stages_between(section: Section, marks_ns: Sequence[int]) -> dict[Stage, float]:
    """The stages, in ms, of a trial whose stages begin and end at these times: the beginning, then the end of each.

    A stage that ended before the one ahead of it did (ranks pass them at their own pace) took no time.
    """
    stages = {}
    reached = marks_ns[0]
    for stage, mark in zip(STAGES[section], marks_ns[1:], strict=True):
        stages[stage] = max(0, mark - reached) / 1e6
        reached = max(reached, mark)
    return stages


@dataclass(frozen=True, kw_only=True)
class Figure:
    median_ms: float
    worst_ms: float


@dataclass(frozen=True, kw_only=True)
class Row:
    """What is known of one setup. The total is a figure of its own: medians of stages do not add up to it."""

    setup: Setup
    trials: int
    failed: int
    stages: Mapping[Stage, Figure]
    total: Figure | None


def summarize(trials: Iterable[Trial]) -> list[Row]:
    """A row per setup, in the order in which they were first seen."""
    by_setup: dict[Setup, list[Trial]] = {}
    for trial in trials:
        by_setup.setdefault(trial.setup, []).append(trial)
    rows = []
    for setup, members in by_setup.items():
        good = [trial for trial in members if not trial.failure]
        stages = {stage: _figure([t.stages_ms[stage] for t in good]) for stage in STAGES[setup.section] if good}
        total = _figure([trial.total_ms for trial in good]) if good else None
        rows.append(Row(setup=setup, trials=len(members), failed=len(members) - len(good), stages=stages, total=total))
    return rows


def _figure(values: Sequence[float]) -> Figure:
    return Figure(median_ms=statistics.median(values), worst_ms=max(values))
