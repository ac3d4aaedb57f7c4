"""What the coordinator shows to those who look."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pycomms.ft.core.messages import EpochId, MemberId
from pycomms.ft.core.phases import Phase
from pycomms.ft.core.roster import State

SHOWN = 100  # decisions that are kept


@dataclass(frozen=True, kw_only=True)
class MemberView:
    """Attributes: ``rank`` is None for those that are not in the epoch."""

    member: MemberId
    slot: int | None
    rank: int | None
    pid: int
    state: State
    committed: int
    steps_per_second: float


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A phase that the job came to, or an epoch that was announced, and why."""

    at: float
    phase: Phase
    epoch: EpochId | None
    reason: str


@dataclass(frozen=True, kw_only=True)
class View:
    """Attributes:
    decisions: the last ones, the newest last.
    attempts: memberships in a row that could not be formed.
    min_ranks: the largest that anybody has told.
    """

    phase: Phase
    reason: str
    epoch: EpochId | None
    members: tuple[MemberView, ...]
    decisions: tuple[Decision, ...]
    attempts: int
    min_ranks: int


class Journal:
    def __init__(self) -> None:
        self._decisions: deque[Decision] = deque(maxlen=SHOWN)

    def note(self, decision: Decision) -> None:
        self._decisions.append(decision)

    def decisions(self) -> tuple[Decision, ...]:
        return tuple(self._decisions)
