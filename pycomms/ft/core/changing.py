"""When a membership ends, and the wait until those who live stand still."""

from __future__ import annotations

from pycomms.ft.core.job import Job
from pycomms.ft.core.messages import Change, MemberId, Ready
from pycomms.ft.core.muster import Muster
from pycomms.ft.core.phases import Cause, Phase
from pycomms.ft.core.roster import Member, State

TOLD_AGAIN = 16  # deaths that are named to a member that has come back; it learns of all when the next epoch forms


def begin(
    job: Job,
    reason: str,
    *,
    died: dict[MemberId, str] | None = None,
    joining: tuple[MemberId, ...] = (),
    broken: bool = True,
) -> None:
    """All who do not stand still are told to; where that has happened already, only that no step can be committed."""
    assert job.epoch is not None
    if job.phase in (Phase.FORMING, Phase.STABLE):
        job.move(Cause.BROKEN, reason)
        running = {
            member: None
            for member in job.ranks
            if member in job.roster.living and job.roster.living[member].state is not State.READY
        }
        muster = job.muster = Muster(job.patience, job.now, running, broken)
    elif job.muster is None or job.muster.broken or not broken:
        return
    else:
        muster = job.muster
        muster.broken = True
        muster.since = job.now
        job.explain(reason)
    change = Change(epoch=job.epoch, died=died or {}, joining=joining, broken=broken, reason=reason)
    for member in muster.awaited:
        job.send(member, change)


def died(job: Job, member: MemberId, how: str) -> None:
    begin(job, f"{named(job, member)} died: {how}", died={member: how})


def ready(job: Job, member: Member, event: Ready) -> None:
    """A member of the epoch stands still."""
    asked = job.muster is not None
    if member.state is not State.READY:
        member.state = State.READY
        job.electorates.stands(member.id)
    member.handle = event.handle
    member.position = event.position
    suspects = tuple(suspect for suspect in event.suspects if suspect in job.ranks and suspect != member.id)
    if not asked or suspects:
        begin(job, _why(job, member.id, event, suspects))
    assert job.muster is not None
    job.muster.ready(job.now, member.id, suspects)
    for suspect in suspects:
        if job.hosts.is_lost(suspect.host) and suspect.host != member.id.host:
            miss_host(job, suspect.host)


def remind(job: Job, member: Member) -> None:
    """It has come back, and may have missed that it is to stop."""
    assert job.epoch is not None
    assert job.muster is not None
    died = dict(job.dead) if len(job.dead) <= TOLD_AGAIN else {}
    job.send(
        member.id, Change(epoch=job.epoch, died=died, broken=job.muster.broken, reason=f"told again: {job.reason}")
    )


def host_is_lost(job: Job, host: str) -> None:
    """Alone that ends nothing. Those who wait to be let in have to come again."""
    for member in job.roster.on_host(host):
        if member.state is State.WAITING:
            job.roster.remove(member.id, None)
    if job.muster is not None and host in job.muster.accused_hosts:
        miss_host(job, host)
    if not job.roster.on_host(host):
        job.hosts.forget(host)


def miss_host(job: Job, host: str) -> None:
    """It is silent, and a member on another host misses one of its members as well."""
    for member in job.roster.on_host(host):
        if member.state in (State.FORMING, State.TRAINING):
            job.give_up(member.id, job.hosts.why(host))


def give_up_late(job: Job) -> None:
    if job.muster is None:
        return
    for member in job.muster.late(job.now):
        accusers = len(job.muster.accusers.get(member, ()))
        blamed = f"{accusers} suspect it and " if accusers else ""
        job.give_up(member, f"{blamed}it does not stand still")


def exclude_worst(job: Job) -> None:
    """All answer, and yet they cannot form: whoever most complain of goes, or a whole host that others do not reach."""
    standing = sorted((member for member in job.ranks if job.stands_still(member)), key=lambda one: job.ranks[one])
    for member in job.complaints.worst(standing):
        job.give_up(member, f"{job.attempts} epochs could not be formed, and most complain of it")


def named(job: Job, member: MemberId) -> str:
    return f"rank {job.ranks[member]} ({member.host}/{member.nonce[:8]})"


def _why(job: Job, member: MemberId, event: Ready, suspects: tuple[MemberId, ...]) -> str:
    blamed = f" and suspects {', '.join(named(job, one) for one in suspects[:3])}" if suspects else ""
    return f"{named(job, member)} stopped{blamed}: {event.reason or 'no reason given'}"
