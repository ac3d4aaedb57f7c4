"""What one test of the suite came to, and how that compares with the list of known exceptions. Pure data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    EXCEPTED = "excepted"  # it failed, and the list of exceptions says why that is right


@dataclass(frozen=True)
class Outcome:
    test: str
    verdict: Verdict
    seconds: float
    why: str  # of a skip: the suite's reason; of a failure: the error and what the ranks wrote

    def judged(self, exceptions: dict[str, str]) -> Outcome:
        """An exception has to fail: one that passes has outlived its reason, and that is a failure of the list."""
        reason = exceptions.get(self.test)
        if reason is None or self.verdict is Verdict.SKIPPED:
            return self
        if self.verdict is Verdict.FAILED:
            return Outcome(self.test, Verdict.EXCEPTED, self.seconds, reason)
        return Outcome(self.test, Verdict.FAILED, self.seconds, f"it passes: take it off the list ({reason})")


@dataclass(frozen=True)
class Report:
    backend: str
    world: int
    gate: str
    outcomes: tuple[Outcome, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(outcome.verdict is verdict for outcome in self.outcomes)

    @property
    def seconds(self) -> float:
        return sum(outcome.seconds for outcome in self.outcomes)
