"""Who is in, decided by one coordinator: what follows from each event, and from the time.

Nothing here waits, reads a clock or sends: the caller says what time it is, and sends what is returned. An event costs
what it changes; only announcing a change or a membership costs as much as there are members. The caller writes the
epoch of a `Form` to its log before it sends it.
"""

from __future__ import annotations

from pycomms.ft.core import admission, changing, forming, relearning
from pycomms.ft.core.job import Job
from pycomms.ft.core.messages import (
    ALL_DONE,
    DONE,
    IS_DONE,
    NOBODY_JOINS,
    Announce,
    Beat,
    Change,
    Died,
    Event,
    Leaving,
    MemberId,
    Progress,
    Ready,
    Refused,
    Settled,
    Verdict,
)
from pycomms.ft.core.phases import DECIDED, Cause, Phase
from pycomms.ft.core.roster import Gone, State
from pycomms.ft.core.rule import Outgoing, Rule
from pycomms.ft.core.view import MemberView, View


class Quorum:
    """Not thread-safe.

    Args:
        boot: greater than that of any coordinator of this job before.
        resumed: the log knows of epochs: whoever is in the last one is given time to tell of it.
    """

    def __init__(self, rule: Rule, boot: int, *, resumed: bool = False) -> None:
        self._job = Job(rule, boot, resumed=resumed)

    @property
    def boot(self) -> int:
        """Of the next epoch that it makes: it grows where members tell of later ones."""
        return self._job.boot

    def apply(self, now: float, event: Event) -> list[Outgoing]:
        """What follows from an event. Events of a host come in the order in which it sent them."""
        job = self._job
        job.now = now
        job.hosts.hear(now, event.host if isinstance(event, Beat) else event.member.host)
        if isinstance(event, Beat):
            return []
        if isinstance(event, Progress):
            self._progress(event)
            return []
        if job.phase in DECIDED:
            self._too_late(event)
        elif isinstance(event, Died):
            admission.member_died(job, event.member, event.how)
        elif isinstance(event, Leaving):
            self._leaving(event)
        elif event.member in job.roster.gone:
            admission.refuse_stale(job, event.member)
        else:
            self._living(event)
        self._consider()
        return job.sent()

    def tick(self, now: float) -> list[Outgoing]:
        """What follows from the time. To be called at `next_deadline`, and harmless at any other time."""
        job = self._job
        job.now = now
        for host in job.hosts.expire(now):
            changing.host_is_lost(job, host)
        if job.phase not in DECIDED:
            changing.give_up_late(job)
            if job.wake is not None and now >= job.wake:
                self._waited()
            self._consider()
        return job.sent()

    def host_lost(self, now: float, host: str, how: str) -> list[Outgoing]:
        """Its connection has ended. It has host_silence to come back, for its members may be well."""
        self._job.hosts.connection_ended(host, how)
        return self.tick(now)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do, if no event comes before."""
        job = self._job
        if job.phase in DECIDED:
            return None
        late = job.muster.deadline(job.now) if job.muster else None
        times = (job.hosts.next_deadline(), late, job.wake)
        return min((time for time in times if time is not None), default=None)

    def view(self) -> View:
        job = self._job
        members = (
            MemberView(
                member=one.id,
                slot=one.slot,
                rank=job.ranks.get(one.id),
                pid=one.pid,
                state=one.state,
                committed=max(one.committed, one.position.committed),
                steps_per_second=one.steps_per_second,
            )
            for one in job.roster.living.values()
        )
        return View(
            phase=job.phase,
            reason=job.reason,
            epoch=job.epoch,
            members=tuple(members),
            decisions=job.journal.decisions(),
            attempts=job.attempts,
            min_ranks=job.min_ranks,
        )

    def _living(self, event: Announce | Ready | Settled) -> None:
        if isinstance(event, Announce):
            admission.announce(self._job, event)
        elif isinstance(event, Ready):
            self._ready(event)
        else:
            self._settled(event)

    def _ready(self, event: Ready) -> None:
        job = self._job
        member = job.roster.living.get(event.member)
        if job.is_superseded_by(event.epoch):
            admission.supersede(job, event.member)
        elif job.phase is Phase.RELEARNING or (job.is_new(event.epoch) and not job.is_void(event.epoch)):
            relearning.hear_ready(job, event)
        elif member is not None and member.state is State.WAITING and job.is_void(event.epoch):
            member.handle, member.position = event.handle, event.position
        elif member is None or member.state is State.WAITING:
            admission.refuse_stale(job, event.member)
        elif member.evicted:
            return
        elif event.epoch != job.epoch and job.is_meant(event) and not job.is_void(event.epoch):
            admission.tell_epoch(job, member)
        else:
            changing.ready(job, member, event)

    def _settled(self, event: Settled) -> None:
        job = self._job
        member = job.roster.living.get(event.member)
        if job.is_superseded_by(event.epoch):
            admission.supersede(job, event.member)
        elif relearning.is_open(job) or job.is_new(event.epoch):
            relearning.start(job, event.epoch)
            job.lessons.hear_of(event.epoch)
            relearning.ask(job, event.member.host)
        if member is None or event.member not in job.ranks:
            return
        if event.epoch != job.epoch:
            if job.phase is not Phase.RELEARNING:
                admission.tell_epoch(job, member)
            return
        job.unsettled.pop(event.member, None)
        if not job.stood:
            job.stood = True
            job.attempts = 0
            job.electorates.settled(event.epoch)
        if member.state is State.FORMING:
            member.state = State.TRAINING

    def _leaving(self, event: Leaving) -> None:
        """Whoever is done is not missed: the others come to their end by themselves, or find that it is gone."""
        job = self._job
        if event.reason != DONE:
            admission.member_died(job, event.member, f"it left: {event.reason}")
            return
        gone = Gone(how=IS_DONE, certain=True)
        if event.member in job.roster.living:
            job.lose(event.member, gone)
        else:
            relearning.died(job, event.member, gone.how)
            job.roster.bury(event.member, gone)
        if not job.finishing:
            job.finishing = True
            admission.close(job)
            self._tell_who_waits()
            if job.phase is Phase.GATHERING:  # others may still come and tell of their epoch
                job.since, job.wake = job.now, job.now + job.gather

    def _tell_who_waits(self) -> None:
        """Some of the epoch may wait for others to come. Who is at its end as well has nothing to do."""
        job = self._job
        if job.epoch is not None:
            change = Change(epoch=job.epoch, reason=NOBODY_JOINS)
            for member in job.ranks:
                if member in job.roster.living:
                    job.send(member, change)

    def _progress(self, event: Progress) -> None:
        member = self._job.roster.living.get(event.member)
        if member is not None:
            member.committed = event.committed
            member.steps_per_second = event.steps_per_second

    def _too_late(self, event: Event) -> None:
        job = self._job
        if job.phase is Phase.ENDED and isinstance(event, (Announce, Ready)):
            job.send(event.member, Refused(member=event.member, verdict=Verdict.ENDED, reason=job.reason))

    def _waited(self) -> None:
        """The phase has waited long enough for the next thing."""
        job = self._job
        job.wake = None
        over = job.now >= job.since + job.rejoin
        if job.phase is Phase.GATHERING and job.finishing:
            job.end(ALL_DONE)
        elif job.phase is Phase.GATHERING:
            if forming.may_begin(job):
                forming.try_to_form(job)
            if job.phase is Phase.GATHERING:
                if over:
                    job.end(f"{len(job.roster.waiting)} members came, min_ranks is {job.min_ranks}")
                else:
                    job.wake = job.since + (job.rejoin / 2 if job.now < job.since + job.rejoin / 2 else job.rejoin)
        elif job.phase is Phase.RELEARNING:
            relearning.waited(job)
            if over and job.phase is Phase.RELEARNING:
                job.end("no member has told who is in the epoch")
        elif job.phase is Phase.FORMING:
            job.move(Cause.SETTLED, f"{len(job.unsettled)} members have not settled yet")
        elif job.phase is Phase.TOO_FEW:
            job.end(f"{job.reason}; nobody came in {job.rejoin:g} s")

    def _consider(self) -> None:
        """What is possible now that was not before."""
        job = self._job
        if job.phase is Phase.RELEARNING and job.lessons.complete:
            relearning.adopt(job)
        if job.finishing and not relearning.is_open(job) and not any(one in job.roster.living for one in job.ranks):
            if job.phase not in DECIDED:
                job.end(ALL_DONE)
            return
        if job.phase is Phase.FORMING and not job.unsettled:
            job.move(Cause.SETTLED, "all members have settled")
        if job.phase is Phase.STABLE and job.roster.waiting:
            self._let_in()
        if job.phase is Phase.GATHERING and job.finishing:
            job.end(ALL_DONE)
        elif job.phase is Phase.GATHERING:
            if forming.may_begin(job):
                forming.try_to_form(job)
        elif job.muster is not None and not job.muster.awaited:
            forming.try_to_form(job)

    def _let_in(self) -> None:
        job = self._job
        joining = forming.newcomers(job)
        if joining:
            members: tuple[MemberId, ...] = tuple(member.id for member, _ in joining)
            changing.begin(job, f"{len(members)} members want to join", joining=members, broken=False)
