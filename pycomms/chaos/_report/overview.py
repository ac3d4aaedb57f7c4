"""What became of all plans of a set: for people at a terminal, and for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from pycomms.chaos.core.ending import Ending
from pycomms.chaos.core.finding import Finding
from pycomms.chaos.core.plan import Plan, words

FORMAT = 1


class State(Enum):
    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, kw_only=True)
class Row:
    """Of one plan. why: one sentence. folder: of its run; None: there was none. recovery: seconds, the longest."""

    plan: Plan
    state: State
    ending: Ending
    why: str
    seconds: float = 0.0
    recovery: float | None = None
    folder: Path | None = None
    findings: Sequence[Finding] = ()


@dataclass(frozen=True, kw_only=True)
class Overview:
    """folder: of the set; that of a run lies in it."""

    name: str
    command: Sequence[str]
    folder: Path
    rows: Sequence[Row]

    @property
    def seconds(self) -> float:
        return sum(row.seconds for row in self.rows)

    @property
    def counts(self) -> Counter[State]:
        return Counter(row.state for row in self.rows)

    @property
    def state(self) -> State:
        """The worst; where nothing could be tried, nothing is decided."""
        counts = self.counts
        for state in (State.FAILED, State.UNDECIDED, State.PASSED):
            if counts[state]:
                return state
        return State.UNDECIDED

    @property
    def said(self) -> str:
        """One line."""
        return ", ".join(f"{self.counts[state]} {state.value}" for state in State if self.counts[state])


def line_of(row: Row) -> str:
    recovery = "" if row.recovery is None else f"{1e3 * row.recovery:.0f} ms"
    why = "" if row.state is State.PASSED else f"  {row.why}"
    return f"{row.state.value:14} {row.plan.name:30} {row.seconds:5.1f} s {recovery:>9}  {row.ending.value}{why}"


def to_text(overview: Overview) -> str:
    heading = f"{'':14} {'plan':30} {'took':>7} {'next step':>9}  the job"
    lines = [f"{overview.state.value.upper()}: {overview.name}: {overview.said}, {overview.seconds:.0f} s", "", heading]
    lines += [line_of(row) for row in overview.rows]
    return "\n".join([*lines, "", f"all of it: {overview.folder / 'index.html'}"])


def to_json(overview: Overview) -> str:
    return json.dumps(
        {
            "format": FORMAT,
            "name": overview.name,
            "result": overview.state.value,
            "command": list(overview.command),
            "seconds": round(overview.seconds, 3),
            "plans": [_as_table(row) for row in overview.rows],
        },
        indent=1,
    )


def _as_table(row: Row) -> dict[str, Any]:
    return {
        "name": row.plan.name,
        "about": row.plan.about,
        "faults": [words(fault) for fault in row.plan.faults],
        "kinds": sorted({fault.kind for fault in row.plan.faults}),
        "result": row.state.value,
        "ending": row.ending.value,
        "why": row.why,
        "seconds": round(row.seconds, 3),
        "recovery": row.recovery,
        "folder": None if row.folder is None else row.folder.name,
    }
