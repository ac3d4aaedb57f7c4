"""A member announces itself: for the first time, or again because a connection or a coordinator has come back."""

from __future__ import annotations

from pycomms.ft.core import changing, relearning
from pycomms.ft.core.job import Job
from pycomms.ft.core.messages import NOBODY_JOINS, Announce, Evict, MemberId, Verdict
from pycomms.ft.core.phases import Cause, Phase
from pycomms.ft.core.roster import Gone, Member, State


def announce(job: Job, event: Announce) -> None:
    most = job.rule.max_ranks
    if event.min_ranks > most:
        reason = f"min_ranks is {event.min_ranks}, expected at most the job's {most} slots"
        job.refuse(event.member, Verdict.FULL, reason)
        return
    job.min_ranks = max(job.min_ranks, event.min_ranks)
    member = job.roster.living.get(event.member)
    if event.epoch is not None and job.is_superseded_by(event.epoch):
        supersede(job, event.member)
    elif event.epoch is not None and (relearning.is_open(job) or job.is_new(event.epoch)):
        relearning.teach(job, event)
    elif member is None and event.epoch is None:
        _newcomer(job, event)
    elif member is None:
        refuse_stale(job, event.member)
    else:
        _again(job, member, event)


def close(job: Job) -> None:
    """Whoever waits is not let in any more."""
    for member in list(job.roster.waiting):
        job.roster.remove(member, None)
        job.refuse(member, Verdict.ENDED, NOBODY_JOINS)


def refuse_stale(job: Job, member: MemberId) -> None:
    gone = job.roster.gone.get(member)
    how = gone.how if gone else "its epoch is over and it was not in the next"
    job.refuse(member, Verdict.STALE, f"it was declared dead: {how}")
    if gone is not None and gone.evicted and not gone.certain:
        job.send(member.host, Evict(member=member, reason=f"it was declared dead and still speaks: {how}"))


def supersede(job: Job, member: MemberId) -> None:
    job.move(Cause.SUPERSEDED, f"{member.host}/{member.nonce[:8]} is in an epoch of a later coordinator")
    job.muster = None


def tell_epoch(job: Job, member: Member) -> None:
    """It does not know that it is in the epoch. Where it trains in the one before, it stops when it hears of this."""
    job.send(member.id, job.current)


def _again(job: Job, member: Member, event: Announce) -> None:
    member.pid = event.pid
    if member.state is State.WAITING:
        member.handle, member.position = event.handle, event.position
    elif member.evicted:
        job.send(member.id.host, Evict(member=member.id, reason="it still speaks"))
    elif event.epoch != job.epoch and member.state is not State.READY:
        tell_epoch(job, member)
    else:
        member.handle, member.position = event.handle, event.position
        if job.muster is not None and member.state is not State.READY:
            changing.remind(job, member)


def _newcomer(job: Job, event: Announce) -> None:
    if job.finishing:
        job.refuse(event.member, Verdict.ENDED, NOBODY_JOINS)
        return
    refusal = _refusal(job, event)
    if refusal is not None:
        job.refuse(event.member, *refusal)
        return
    if job.phase is Phase.GATHERING and not job.roster.waiting:
        job.since = job.now
        job.wake = job.now + job.gather
    job.roster.add(
        Member(
            id=event.member,
            slot=event.slot,
            pid=event.pid,
            handle=event.handle,
            position=event.position,
            state=State.WAITING,
        )
    )
    if relearning.is_open(job):
        job.lessons.announce(event)


def _refusal(job: Job, event: Announce) -> tuple[Verdict, str] | None:
    most = job.rule.max_ranks
    if event.slot is None:
        if len(job.roster.living) >= most and all(map(job.hosts.reachable, job.roster.hosts())):
            return Verdict.FULL, f"all {most} slots are taken"
        return None
    if not 0 <= event.slot < most:
        return Verdict.FULL, f"slot is {event.slot}, the job has slots 0 to {most - 1}"
    holder = job.roster.holder(event.slot)
    if holder is None:
        return None
    if holder.id.host == event.member.host:
        # A host starts another in a slot only when it has seen the end of the one before.
        how = f"{event.member.host} has started another in slot {event.slot}"
        member_died(job, holder.id, how)
        return None
    if holder.state is State.MISSING or not job.hosts.reachable(holder.id.host):
        return None  # it waits until that one is declared dead; where it is back instead, the next epoch is without it
    return Verdict.DUPLICATE, f"{holder.id.host}/{holder.id.nonce[:8]} has slot {event.slot}"


def member_died(job: Job, member: MemberId, how: str) -> None:
    """Its host has seen the end of its process."""
    gone = Gone(how=how, certain=True)
    record = job.roster.living.get(member)
    if record is None:
        relearning.died(job, member, how)
        job.roster.bury(member, gone)
        job.electorates.died(member)
        return
    job.lose(member, gone)
    if member in job.ranks and job.phase in (Phase.FORMING, Phase.STABLE, Phase.CHANGING, Phase.TOO_FEW):
        changing.died(job, member, how)
