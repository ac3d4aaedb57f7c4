"""Who is alive as far as the coordinator knows, by name, host and slot; and who no longer is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from pycomms.ft.core.messages import MemberId, Position

REMEMBERED = 20_000  # of those that are gone; a member that comes back after so many others is known by its old epoch


class State(Enum):
    """What a member does, as far as the coordinator knows."""

    WAITING = "waiting"  # to be let in
    FORMING = "forming"  # was told the membership, has not settled
    TRAINING = "training"
    READY = "ready"  # stands still and waits for the next membership
    MISSING = "missing"  # should be ready, and is given up unless it comes back before the next membership


@dataclass(slots=True)
class Member:
    id: MemberId
    slot: int | None
    pid: int
    handle: str
    position: Position
    state: State
    evicted: bool = False  # its host was told to end it
    committed: int = 0  # as it last said, for those who look
    steps_per_second: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A member that is not, or no longer, counted on.

    Attributes:
        certain: its end was seen, so it cannot be part of anything any more.
        silent: its host was heard by this coordinator and is lost.
        evicted: its host was told to end it.
    """

    how: str
    certain: bool
    silent: bool = False
    evicted: bool = False


class Roster:
    def __init__(self) -> None:
        self.living: dict[MemberId, Member] = {}
        self.waiting: dict[MemberId, Member] = {}  # those of the living that are to be let in
        self.gone: dict[MemberId, Gone] = {}
        self._hosts: dict[str, dict[MemberId, None]] = {}
        self._slots: dict[int, MemberId] = {}

    def add(self, member: Member) -> None:
        """Takes its slot if that is free."""
        self.living[member.id] = member
        self._hosts.setdefault(member.id.host, {})[member.id] = None
        if member.slot is not None:
            self._slots.setdefault(member.slot, member.id)
        if member.state is State.WAITING:
            self.waiting[member.id] = member

    def remove(self, member: MemberId, gone: Gone | None) -> None:
        """``gone`` is remembered; None: as if it had never been there."""
        record = self.living.pop(member)
        self.waiting.pop(member, None)
        on_host = self._hosts[member.host]
        del on_host[member]
        if not on_host:
            del self._hosts[member.host]
        if record.slot is not None and self._slots.get(record.slot) == member:
            del self._slots[record.slot]
        if gone is not None:
            self.bury(member, gone)

    def bury(self, member: MemberId, gone: Gone) -> None:
        self.gone[member] = gone
        if len(self.gone) > REMEMBERED:
            del self.gone[next(iter(self.gone))]

    def admit(self, member: Member, slot: int) -> None:
        member.slot = slot
        self._slots[slot] = member.id
        self.waiting.pop(member.id, None)

    def holder(self, slot: int) -> Member | None:
        member = self._slots.get(slot)
        return None if member is None else self.living[member]

    def hosts(self) -> Iterable[str]:
        return self._hosts

    def on_host(self, host: str) -> list[Member]:
        return [self.living[member] for member in self._hosts.get(host, ())]
