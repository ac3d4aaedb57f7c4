"""All that a coordinator knows of its job, and the few ways in which that changes.

The decisions are elsewhere: who is let in (`admission`), when a membership ends (`changing`), what the next one is
(`forming`), what a younger coordinator makes of what it is told (`relearning`).
"""

from __future__ import annotations

from pycomms.ft.core.complaints import Complaints
from pycomms.ft.core.electorate import Electorates
from pycomms.ft.core.hosts import Hosts
from pycomms.ft.core.lessons import Lessons
from pycomms.ft.core.messages import EpochId, Evict, Form, MemberId, Notice, Ready, Refused, Verdict
from pycomms.ft.core.muster import Muster, Patience
from pycomms.ft.core.phases import TABLE, Cause, Phase
from pycomms.ft.core.roster import Gone, Roster, State
from pycomms.ft.core.rule import Outgoing, Rule
from pycomms.ft.core.view import Decision, Journal


class Job:
    def __init__(self, rule: Rule, boot: int, *, resumed: bool) -> None:
        times = rule.timeouts
        self.rule = rule
        self.gather = times.gather.total_seconds()
        self.rejoin = times.rejoin.total_seconds()
        self.forming_time = (times.regroup + times.restore).total_seconds()
        self.patience = Patience(
            suspect=self.gather,
            other=max(times.operation.total_seconds(), self.gather),
            first=self.rejoin,
        )
        self.resumed = resumed  # there were epochs before, as far as is known
        self.min_ranks = rule.min_ranks
        self.finishing = False  # a member is done

        self.now = 0.0
        self.phase = Phase.GATHERING
        self.since = 0.0  # when the phase began to wait for something
        self.wake: float | None = None  # when it has waited long enough for the next thing
        self.reason = "nobody is there yet"

        self.epoch: EpochId | None = None
        self.form: Form | None = None  # as it was announced
        self.void: EpochId | None = None  # later ones, up to this, came to nothing: see `relearning`
        self.ranks: dict[MemberId, int] = {}  # in the epoch
        self.dead: dict[MemberId, str] = {}  # of the epoch
        self.unsettled: dict[MemberId, None] = {}  # of the epoch
        self.stood = False  # a member has settled in the epoch
        self.attempts = 0  # epochs in a row in which nobody has, though nobody died
        self.complaints = Complaints()  # in these epochs, and in the one before them
        self.muster: Muster | None = None  # while the epoch ends

        self.roster = Roster()
        self.hosts = Hosts(times.host_silence.total_seconds())
        self.electorates = Electorates()
        self.lessons = Lessons()
        self.journal = Journal()
        self._boot = boot
        self._counter = 0
        self._out: list[Outgoing] = []

    @property
    def boot(self) -> int:
        """Of the next epoch that is made here."""
        return self._boot

    @property
    def current(self) -> Form:
        assert self.form is not None, "there is no epoch yet"
        return self.form

    def next_epoch(self) -> EpochId:
        self._counter += 1
        return EpochId(self._boot, self._counter)

    def outlive(self, epoch: EpochId) -> None:
        """Epochs have to grow, also where the clock that boots are taken from was set back."""
        self._boot = max(self._boot, epoch.boot + 1)

    def is_superseded_by(self, epoch: EpochId) -> bool:
        """Whether a later coordinator has made it; a coordinator that has made none itself can still come after it."""
        return epoch.boot > self._boot and (self.epoch is not None and self.epoch.boot == self._boot)

    def is_new(self, epoch: EpochId) -> bool:
        """Whether it is after all that this coordinator knows."""
        return self.epoch is None or epoch > self.epoch

    def is_void(self, epoch: EpochId) -> bool:
        """Whether the coordinator before this one announced it, and nobody could tell who is in it."""
        return self.void is not None and epoch <= self.void and self.is_new(epoch)

    def is_meant(self, event: Ready) -> bool:
        """Whether the epoch was decided with what the member says now: then it can be in it, and has missed it."""
        seat = self.current.seats[self.ranks[event.member]]
        return (seat.position, seat.handle) == (event.position, event.handle)

    def move(self, cause: Cause, reason: str, *, wait: float | None = None) -> None:
        """To the phase that the table says.

        Args:
            wait: seconds until the phase has waited long enough; None: it does not wait.
        """
        self.phase = TABLE[self.phase, cause]
        self.since = self.now
        self.wake = None if wait is None else self.now + wait
        self.explain(reason)

    def explain(self, reason: str) -> None:
        self.reason = reason
        self.journal.note(Decision(at=self.now, phase=self.phase, epoch=self.epoch, reason=reason))

    def send(self, to: MemberId | str, notice: Notice) -> None:
        self._out.append(Outgoing(to, notice))

    def sent(self) -> list[Outgoing]:
        out, self._out = self._out, []
        return out

    def refuse(self, member: MemberId, verdict: Verdict, reason: str) -> None:
        self.send(member, Refused(member=member, verdict=verdict, reason=reason))

    def end(self, reason: str) -> None:
        self.move(Cause.OVER, reason)
        self.muster = None
        for member in {**self.roster.living, **self.lessons.announced}:
            self.refuse(member, Verdict.ENDED, reason)

    def lose(self, member: MemberId, gone: Gone) -> None:
        """A member of the epoch, or one that was to be let in, is no longer counted on."""
        record = self.roster.living[member]
        self.roster.remove(member, gone)
        if member in self.ranks:
            self.dead[member] = gone.how
            self.unsettled.pop(member, None)
            if record.state is State.READY:
                self.electorates.stands(member, -1)
            if self.muster is not None:
                self.muster.gone(member)
            if gone.certain:
                self.electorates.died(member)

    def give_up(self, member: MemberId, reason: str) -> None:
        """It has had its time. It still may come, until the next epoch is announced."""
        record = self.roster.living[member]
        if record.state is State.READY:
            self.electorates.stands(member, -1)
        record.state = State.MISSING
        if self.muster is not None:
            self.muster.give_up(member)
        if self.hosts.reachable(member.host):
            record.evicted = True
            self.send(member.host, Evict(member=member, reason=reason))

    def fell_silent(self, member: MemberId) -> bool:
        """Its host has talked to this coordinator and no longer does."""
        gone = self.roster.gone.get(member)
        if gone is not None:
            return gone.silent
        return self.hosts.is_lost(member.host) and self.hosts.was_heard(member.host)

    def stands_still(self, member: MemberId) -> bool:
        record = self.roster.living.get(member)
        return record is not None and record.state is State.READY
