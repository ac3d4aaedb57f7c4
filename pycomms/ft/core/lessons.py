"""What members tell a coordinator that is younger than their membership."""

from __future__ import annotations

from pycomms.ft.core.messages import Announce, EpochId, MemberId, Ready, Seat


class Lessons:
    def __init__(self) -> None:
        self.newest: EpochId | None = None
        self.seats: tuple[Seat, ...] = ()  # of the newest; empty: not told yet
        self.announced: dict[MemberId, Announce] = {}
        self.ready: dict[MemberId, Ready] = {}
        self.dead: dict[MemberId, str] = {}
        self._missed: set[MemberId] = set()  # of the seats: not heard, not dead
        self._asked: set[str] = set()

    def announce(self, announce: Announce) -> None:
        if announce.epoch is None:
            raise ValueError(f"{announce.member} has no epoch to tell of")
        self.announced[announce.member] = announce
        if self.newest is None or announce.epoch > self.newest:
            self.newest = announce.epoch
            self.seats = ()
            self._asked.clear()
        if announce.epoch == self.newest and announce.seats and not self.seats:
            self.seats = announce.seats
            self._missed = {seat.member for seat in self.seats}
            self._missed -= self.announced.keys() | self.dead.keys()
        self._missed.discard(announce.member)

    def hear_ready(self, ready: Ready) -> None:
        self.ready[ready.member] = ready

    def lose(self, member: MemberId, how: str) -> None:
        self.announced.pop(member, None)
        self.ready.pop(member, None)
        self.dead[member] = how
        self._missed.discard(member)

    @property
    def complete(self) -> bool:
        return bool(self.seats) and not self._missed

    def whom_to_ask(self, announce: Announce) -> str | None:
        """The host that is to tell the seats: one that knows the newest membership and was not asked before."""
        if self.seats or announce.epoch != self.newest or self._asked:
            return None
        self._asked.add(announce.member.host)
        return announce.member.host

    def ask_again(self) -> str | None:
        """Another host, since the first has not answered."""
        if self.seats:
            return None
        for announce in self.announced.values():
            if announce.epoch == self.newest and announce.member.host not in self._asked:
                self._asked.add(announce.member.host)
                return announce.member.host
        self._asked.clear()
        return None

    def __str__(self) -> str:
        told = f"epoch {self.newest.boot}.{self.newest.counter}" if self.newest else "nothing"
        return f"taught of {told} by {len(self.announced)} members; {len(self._missed)} of its seats not heard from"
