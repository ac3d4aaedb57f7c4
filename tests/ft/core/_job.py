"""A quorum and what was said to it, in few words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeVar

from pycomms.ft.core.messages import (
    Announce,
    Beat,
    Change,
    Died,
    EpochId,
    Event,
    Form,
    Leaving,
    MemberId,
    Notice,
    Position,
    Ready,
    Seat,
    Settled,
    Standing,
)
from pycomms.ft.core.phases import Phase
from pycomms.ft.core.quorum import Quorum
from pycomms.ft.core.rule import Outgoing, Rule
from pycomms.ft.core.timeouts import derive

TIMES = derive(timedelta(seconds=10))
GATHER = TIMES.gather.total_seconds()
OPERATION = TIMES.operation.total_seconds()
REJOIN = TIMES.rejoin.total_seconds()
SILENCE = TIMES.host_silence.total_seconds()

N = TypeVar("N", bound=Notice)


def member(slot: int, host: str | None = None, life: int = 0) -> MemberId:
    return MemberId(host or f"host{slot // 2}", f"m{slot}.{life}")


def at(committed: int, *, in_doubt: int | None = None) -> Position:
    return Position(committed=committed, in_doubt=in_doubt, standing=Standing.TRAINED)


class Job:
    """Keeps the time, and all that was sent since it was last asked."""

    def __init__(self, slots: int, *, min_ranks: int = 1, boot: int = 7, resumed: bool = False) -> None:
        self.now = 100.0
        self.slots = slots
        self.quorum = Quorum(
            Rule(min_ranks=min_ranks, max_ranks=slots, expected=slots, timeouts=TIMES), boot, resumed=resumed
        )
        self.sent: list[Outgoing] = []

    @property
    def phase(self) -> Phase:
        return self.quorum.view().phase

    @property
    def epoch(self) -> EpochId:
        epoch = self.quorum.view().epoch
        assert epoch is not None
        return epoch

    def say(self, event: Event) -> None:
        self.sent += self.quorum.apply(self.now, event)

    def pass_(self, seconds: float, beating: Sequence[str] = ()) -> None:
        """Time goes by; ``beating`` hosts are heard, the others are silent."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + TIMES.beat.total_seconds())
            for host in beating:
                self.say(Beat(host=host))
            deadline = self.quorum.next_deadline()
            if deadline is not None and deadline <= self.now:
                self.sent += self.quorum.tick(self.now)

    def announce(
        self, who: MemberId, slot: int | None, position: Position | None = None, *, min_ranks: int = 1
    ) -> None:
        position = position or Position()
        handle = f"{who.nonce}:new"
        self.say(Announce(member=who, slot=slot, pid=1, handle=handle, position=position, min_ranks=min_ranks))

    def teach(self, who: MemberId, epoch: EpochId, slot: int, seats: tuple[Seat, ...] = ()) -> None:
        self.say(
            Announce(member=who, slot=slot, pid=1, handle=f"{who.nonce}:x", position=at(3), epoch=epoch, seats=seats)
        )

    def ready(
        self,
        who: MemberId,
        position: Position | None = None,
        suspects: tuple[MemberId, ...] = (),
        *,
        epoch: EpochId | None = None,
    ) -> None:
        self.say(
            Ready(
                member=who,
                epoch=epoch or self.epoch,
                handle=f"{who.nonce}:ready",
                position=position or at(3),
                suspects=suspects,
            )
        )

    def die(self, who: MemberId) -> None:
        self.say(Died(member=who, how="signal 9"))

    def leave(self, who: MemberId, reason: str) -> None:
        self.say(Leaving(member=who, reason=reason))

    def settle(self, *members: MemberId) -> None:
        for one in members:
            self.say(Settled(member=one, epoch=self.epoch, seconds=0.1))

    def take(self, kind: type[N]) -> dict[MemberId | str, N]:
        """The last notice of a kind that was sent to each. Forgets what was sent."""
        found: dict[MemberId | str, N] = {one.to: one.notice for one in self.sent if isinstance(one.notice, kind)}
        self.sent = []
        return found

    def take_form(self) -> Form:
        """The one that was sent, the same to all."""
        forms = self.take(Form)
        (form,) = {id(form): form for form in forms.values()}.values()
        assert forms.keys() == {seat.member for seat in form.seats}
        return form

    def take_change(self) -> Change:
        changes = self.take(Change)
        (change,) = {id(change): change for change in changes.values()}.values()
        return change


def training(slots: int, *, min_ranks: int = 1) -> tuple[Job, list[MemberId]]:
    """All slots in the first epoch, settled; two to a host."""
    job = Job(slots, min_ranks=min_ranks)
    members = [member(slot) for slot in range(slots)]
    for slot, one in enumerate(members):
        job.announce(one, slot)
    job.take_form()
    job.settle(*members)
    assert job.phase is Phase.STABLE
    return job, members


def slots_of(form: Form) -> list[int]:
    return [seat.slot for seat in form.seats]
