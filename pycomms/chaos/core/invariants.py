"""All that a run is judged by. Each is a pure function of its log; a property holds, is violated, or was not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from pycomms.chaos.core import growth, numbers, strength, survival
from pycomms.chaos.core.finding import Finding, State
from pycomms.chaos.core.log import Log
from pycomms.chaos.core.parse import INVARIANTS

_CHECKS: dict[str, Callable[[Log], Finding]] = {
    "injected": survival.injected,
    "ends": survival.ends,
    "outcome": survival.outcome,
    "values": numbers.values,
    "agreement": numbers.agreement,
    "steps": numbers.steps,
    "samples": numbers.samples,
    "recovery": survival.recovery,
    "explained": survival.explained,
    "no-false-alarm": survival.no_false_alarm,
    "strength": strength.strength,
    "growth": growth.growth,
    "hygiene": survival.hygiene,
}
assert tuple(_CHECKS) == INVARIANTS


class Result(Enum):
    PASSED = "passed"
    FAILED = "failed"
    UNDECIDED = "undecided"


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """why: one sentence."""

    result: Result
    why: str
    findings: tuple[Finding, ...]

    @property
    def violated(self) -> tuple[str, ...]:
        return tuple(one.invariant for one in self.findings if one.state is State.VIOLATED)


def judge(log: Log) -> Judgement:
    """All invariants, and what follows."""
    findings = tuple(_CHECKS[name](log) for name in INVARIANTS)
    result, why = _result(log, findings)
    return Judgement(result=result, why=why, findings=findings)


def _result(log: Log, findings: Sequence[Finding]) -> tuple[Result, str]:
    violated = [one.invariant for one in findings if one.state is State.VIOLATED]
    expected = log.plan.expect.violations
    wrong = [name for name in violated if name not in expected and name != "injected"]
    absent = [name for name in expected if name not in violated]
    if wrong:
        return Result.FAILED, f"violated: {', '.join(wrong)}"
    if log.end is None or log.end["how"] == "interrupted":
        return Result.UNDECIDED, "the run was interrupted"
    if "injected" in violated and "injected" not in expected:
        return Result.UNDECIDED, "not every fault of the plan has happened"
    if absent:
        return Result.FAILED, f"the plan expects these to be violated, and they held: {', '.join(absent)}"
    if expected:
        return Result.PASSED, f"violated as the plan expects: {', '.join(expected)}"
    return Result.PASSED, "all that was checked has held"
