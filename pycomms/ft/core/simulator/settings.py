"""The size of a simulated job, and how long things take in it. Seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from pycomms.ft.core.timeouts import Timeouts, derive


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Attributes:
    steps: after which the training is done; None: it goes on.
    ranks_per_host: members that one host speaks for.
    message: longest time that a message is on its way; the shortest is a tenth of it.
    compute: of a step, give or take a fifth.
    operation: longest time from the last member's coming to the end of an operation.
    detection: longest time from a death to the others' knowing.
    respawn: from a member's end to the announcement of the one in its place.
    """

    members: int
    min_ranks: int
    steps: int | None = None
    ranks_per_host: int = 2
    message: float = 0.004
    compute: float = 0.05
    operation: float = 0.002
    detection: float = 0.01
    respawn: float = 0.3
    timeouts: Timeouts = field(default_factory=lambda: derive(timedelta(seconds=10)))

    @property
    def hosts(self) -> int:
        return -(-self.members // self.ranks_per_host)
