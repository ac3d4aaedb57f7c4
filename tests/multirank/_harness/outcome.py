"""What became of one rank, and the error that tells about all of them. Pure data: no process, no torch."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Ok:
    value: Any

    def describe(self) -> str:
        return "returned"


@dataclass(frozen=True)
class Failed:
    traceback: str

    def describe(self) -> str:
        return f"raised\n{self.traceback}"


@dataclass(frozen=True)
class Died:
    exitcode: int
    log: str

    @property
    def by_signal(self) -> int:
        return max(0, -self.exitcode)

    def describe(self) -> str:
        how = signal.Signals(self.by_signal).name if self.by_signal else f"exit code {self.exitcode}"
        return f"died ({how})\n{self.log}"


@dataclass(frozen=True)
class Stuck:
    stacks: str

    def describe(self) -> str:
        return f"did not finish; its stacks:\n{self.stacks}"


Outcome = Ok | Failed | Died | Stuck


class RanksError(AssertionError):
    """At least one rank did not do what the test expects. The text has a section per rank, the culprits first."""

    def __init__(self, target: str, outcomes: Mapping[int, Outcome]) -> None:
        self.outcomes = dict(outcomes)
        order = sorted(outcomes.items(), key=lambda item: (_SEVERITY[type(item[1])], item[0]))
        sections = [f"--- rank {rank} {outcome.describe()}" for rank, outcome in order]
        super().__init__(f"{target} failed on {len(outcomes)} ranks\n" + "\n".join(sections))


_SEVERITY = {Failed: 0, Died: 1, Stuck: 2, Ok: 3}
