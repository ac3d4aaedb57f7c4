"""Waiting until the living members of a membership that ends stand still, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pycomms.ft.core.messages import MemberId


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds, counted from the first member that stood still; ``first`` from the request to stop.

    Those who are suspected are given less time than those of whom nobody complains: they may be in a long step.
    A membership that is not broken ends when its step does, however long that lasts.
    """

    suspect: float
    other: float
    first: float


@dataclass(slots=True)
class Muster:
    """Attributes:
    awaited: living, and not standing still.
    missing: given up, unless they come after all.
    broken: whether members were told that no step of it can be committed.
    accusers: who suspects whom.
    """

    patience: Patience
    since: float
    awaited: dict[MemberId, None]
    broken: bool
    missing: dict[MemberId, None] = field(default_factory=dict)
    accusers: dict[MemberId, dict[MemberId, None]] = field(default_factory=dict)
    accused_hosts: dict[str, dict[str, None]] = field(default_factory=dict)  # and by which others
    first_ready: float | None = None

    def ready(self, now: float, member: MemberId, suspects: Iterable[MemberId]) -> None:
        self.awaited.pop(member, None)
        self.missing.pop(member, None)
        if self.first_ready is None:
            self.first_ready = now
        for suspect in suspects:
            self.accusers.setdefault(suspect, {})[member] = None
            if suspect.host != member.host:
                self.accused_hosts.setdefault(suspect.host, {})[member.host] = None

    def gone(self, member: MemberId) -> None:
        self.awaited.pop(member, None)
        self.missing.pop(member, None)

    def give_up(self, member: MemberId) -> None:
        self.awaited.pop(member, None)
        self.missing[member] = None

    def late(self, now: float) -> list[MemberId]:
        """Those who have had their time."""
        if not self.awaited:
            return []
        if self.first_ready is None:
            return list(self.awaited) if self.broken and now >= self.since + self.patience.first else []
        if now >= self.first_ready + self.patience.other:
            return list(self.awaited)
        if now >= self.first_ready + self.patience.suspect:
            return [member for member in self.accusers if member in self.awaited]
        return []

    def deadline(self, now: float) -> float | None:
        """The next moment at which somebody may be late."""
        if not self.awaited:
            return None
        if self.first_ready is None:
            return self.since + self.patience.first if self.broken else None
        suspects = self.first_ready + self.patience.suspect
        if now < suspects or any(member in self.awaited for member in self.accusers):
            return suspects
        return self.first_ready + self.patience.other
