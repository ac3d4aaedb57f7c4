"""What members tell a coordinator that is younger than their membership."""

from __future__ import annotations

from dataclasses import replace

from pycomms.ft.core.messages import Announce, EpochId, MemberId, Ready, Seat

ASKED = 3  # hosts that are asked for the same seats: each answers with all of them


class Lessons:
    def __init__(self) -> None:
        self.newest: EpochId | None = None
        self.seats: dict[EpochId, tuple[Seat, ...]] = {}  # of the newest that were told
        self.announced: dict[MemberId, Announce] = {}
        self.ready: dict[MemberId, Ready] = {}
        self.dead: dict[MemberId, str] = {}
        self._missed: set[MemberId] = set()  # of the newest, if its seats are known: not heard, not dead
        self._asked: set[str] = set()
        self._places: dict[tuple[str, int | None], MemberId] = {}

    def hear_of(self, epoch: EpochId) -> None:
        if self.newest is None or epoch > self.newest:
            self.newest = epoch
            self._asked.clear()

    def announce(self, announce: Announce) -> None:
        place = (announce.member.host, announce.slot)
        before = self._places.setdefault(place, announce.member)
        if before != announce.member and announce.slot is not None and announce.epoch is None:
            # A host starts another in a slot only when it has seen the end of the one before.
            self._places[place] = announce.member
            self.lose(before, f"{announce.member.host} has started another in slot {announce.slot}")
        self.announced[announce.member] = replace(announce, seats=())
        self._missed.discard(announce.member)
        epoch = announce.epoch
        if epoch is None:
            return
        self.hear_of(epoch)
        if announce.seats and (not self.seats or epoch > max(self.seats)):
            self.seats = {epoch: announce.seats}
            self._missed = {seat.member for seat in announce.seats}
            self._missed -= self.announced.keys() | self.dead.keys()

    def hear_ready(self, ready: Ready) -> None:
        self.ready[ready.member] = ready

    def lose(self, member: MemberId, how: str) -> None:
        self.announced.pop(member, None)
        self.ready.pop(member, None)
        self.dead[member] = how
        self._missed.discard(member)

    @property
    def complete(self) -> bool:
        return self.newest in self.seats and not self._missed

    def asks(self, host: str) -> bool:
        """Whether to ask that host, which knows of the newest membership, for its seats."""
        if self.newest in self.seats or host in self._asked or len(self._asked) >= ASKED:
            return False
        self._asked.add(host)
        return True

    def ask_others(self) -> list[str]:
        """More hosts, since those that were asked have not answered."""
        self._asked.clear()
        hosts = dict.fromkeys(one.member.host for one in self.announced.values() if one.epoch == self.newest)
        return [host for host in hosts if self.asks(host)]

    def __str__(self) -> str:
        told = f"epoch {self.newest.boot}.{self.newest.counter}" if self.newest else "nothing"
        return f"taught of {told} by {len(self.announced)} members; {len(self._missed)} of its seats not heard from"
