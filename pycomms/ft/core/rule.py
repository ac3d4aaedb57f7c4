"""What a job allows, and what the coordinator wants sent."""

from __future__ import annotations

from dataclasses import dataclass

from pycomms.ft.core.messages import MemberId, Notice
from pycomms.ft.core.timeouts import Timeouts


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a membership has to be like.

    Attributes:
        min_ranks: fewer do not train.
        max_ranks: slots are numbered from 0 to max_ranks - 1.
        expected: the first membership is formed at once when so many are there, and later with fewer.
        timeouts: of the whole job.
        attempts: memberships in a row that could not be formed, after which whoever is complained of most is evicted,
            although it answers.
    """

    min_ranks: int
    max_ranks: int
    expected: int
    timeouts: Timeouts
    attempts: int = 3

    def __post_init__(self) -> None:
        if not 1 <= self.min_ranks <= self.expected <= self.max_ranks:
            raise ValueError(
                f"min_ranks is {self.min_ranks}, expected {self.expected}, max_ranks {self.max_ranks}: "
                "expected 1 <= min_ranks <= expected <= max_ranks"
            )
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}, expected at least 1")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A notice and whom it is for: a member, or a host by its name. Many share one notice, which is the same object."""

    to: MemberId | str
    notice: Notice
