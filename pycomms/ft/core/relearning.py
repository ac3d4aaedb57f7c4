"""A coordinator that is younger than the membership is told of it by the members.

It decides nothing before it has heard from every seat, or has waited: until then whoever it has not heard from may be
on its way. A membership may also have been announced by the coordinator before it and not have reached everybody: then
members tell of different ones, and the newest whose seats some member can tell is taken for the last. Those who could
not form a later one stand still, and count as such.
"""

from __future__ import annotations

from pycomms.ft.core import changing
from pycomms.ft.core.job import Job
from pycomms.ft.core.lessons import Lessons
from pycomms.ft.core.messages import Announce, EpochId, Form, MemberId, Ready, Seat, Teach, Verdict
from pycomms.ft.core.phases import Cause, Phase
from pycomms.ft.core.roster import Member, State


def is_open(job: Job) -> bool:
    return job.phase in (Phase.GATHERING, Phase.RELEARNING)


def teach(job: Job, event: Announce) -> None:
    """A member tells of an epoch that this coordinator has not made and does not know."""
    assert event.epoch is not None
    start(job, event.epoch)
    job.lessons.announce(event)
    ask(job, event.member.host)


def hear_ready(job: Job, event: Ready) -> None:
    """A member stands still whose epoch is not known; perhaps it was announced and could not be formed."""
    start(job, event.epoch)
    job.lessons.hear_ready(event)
    job.lessons.hear_of(event.epoch)
    ask(job, event.member.host)


def died(job: Job, member: MemberId, how: str) -> None:
    if is_open(job):
        job.resumed = True  # nobody has announced it here: the job is older than this coordinator
        job.lessons.lose(member, how)


def start(job: Job, epoch: EpochId) -> None:
    """Also a second time, when a later epoch of the coordinator before becomes known."""
    if job.phase is Phase.RELEARNING:
        return
    lessons = job.lessons = Lessons()
    lessons.dead = {member: gone.how for member, gone in job.roster.gone.items() if gone.certain}
    if job.form is not None:
        lessons.seats = {job.form.epoch: job.form.seats}
        for member in list(job.ranks):
            if member in job.roster.living:
                _forget(job, lessons, member)
    for newcomer in job.roster.waiting.values():
        lessons.announce(_announcement(newcomer, None))
    job.muster = None
    job.unsettled.clear()
    job.move(
        Cause.TAUGHT, f"a member is in epoch {epoch.boot}.{epoch.counter}, which is not known here", wait=job.gather
    )


def ask(job: Job, host: str) -> None:
    assert job.lessons.newest is not None
    if job.lessons.asks(host):
        job.send(host, Teach(epoch=job.lessons.newest))


def waited(job: Job) -> None:
    """Some were not heard in time: they count as members that this coordinator has not heard from."""
    if job.lessons.seats:
        adopt(job)
        return
    assert job.lessons.newest is not None
    if all(one.epoch is None for one in job.lessons.announced.values()):
        _begin_again(job, job.lessons.newest)
        return
    for host in job.lessons.ask_others():
        job.send(host, Teach(epoch=job.lessons.newest))
    job.wake = job.now + job.gather


def adopt(job: Job) -> None:
    """The membership is what was told, and whoever waits to be let in is treated as always."""
    lessons = job.lessons
    ((epoch, seats),) = lessons.seats.items()
    assert lessons.newest is not None
    job.outlive(lessons.newest)
    job.epoch, job.void = epoch, lessons.newest
    older = [one.epoch for one in lessons.announced.values() if one.epoch is not None and one.epoch < epoch]
    job.form = Form(
        epoch=epoch,
        previous=max(older, default=None),
        seats=seats,
        reason="told again by a coordinator that has come back",
    )
    job.ranks = {seat.member: rank for rank, seat in enumerate(seats)}
    job.dead = {}
    job.unsettled = {}
    job.stood = True
    job.electorates.announced(epoch, job.ranks)
    job.electorates.settled(epoch)
    for seat in seats:
        _take_seat(job, seat)
    for member, told in lessons.announced.items():
        if member not in job.ranks and told.epoch is not None:
            job.refuse(member, Verdict.STALE, "its epoch is over and it was not in the next")
    job.move(Cause.RECALLED, str(lessons))
    _catch_up(job)


def _begin_again(job: Job, newest: EpochId) -> None:
    """An epoch was announced, and those who were told could not form it: they are what they were, newcomers."""
    job.outlive(newest)
    job.void = newest
    job.resumed = True
    job.lessons = Lessons()
    job.move(Cause.VOID, "members were told an epoch, and nobody was ever in it", wait=job.gather)


def _forget(job: Job, lessons: Lessons, member: MemberId) -> None:
    record = job.roster.living[member]
    if job.hosts.was_heard(member.host) and record.pid:
        lessons.announce(_announcement(record, job.epoch))
    if record.state is State.READY:
        assert job.epoch is not None
        lessons.hear_ready(Ready(member=member, epoch=job.epoch, handle=record.handle, position=record.position))
    job.roster.remove(member, None)


def _announcement(member: Member, epoch: EpochId | None) -> Announce:
    return Announce(
        member=member.id,
        slot=member.slot,
        pid=member.pid,
        handle=member.handle,
        position=member.position,
        epoch=epoch,
    )


def _take_seat(job: Job, seat: Seat) -> None:
    how = job.lessons.dead.get(seat.member)
    if how is not None:
        job.dead[seat.member] = how
        job.electorates.died(seat.member)
        return
    _make_room(job, seat)
    told = job.lessons.announced.get(seat.member)
    job.roster.add(
        Member(
            id=seat.member,
            slot=seat.slot,
            pid=told.pid if told else 0,
            handle=told.handle if told else seat.handle,
            position=told.position if told else seat.position,
            state=State.TRAINING,
        )
    )
    if told is None:
        job.hosts.expect(job.now, seat.member.host)
    elif (told.epoch is None or told.epoch < job.current.epoch) and seat.member not in job.lessons.ready:
        job.send(seat.member, job.current)


def _make_room(job: Job, seat: Seat) -> None:
    """The member itself may have been taken for a newcomer, or a newcomer for the one in that slot."""
    if seat.member in job.roster.waiting:
        job.roster.remove(seat.member, None)
    holder = job.roster.holder(seat.slot)
    if holder is None:
        return
    job.roster.remove(holder.id, None)
    job.refuse(holder.id, Verdict.DUPLICATE, f"{seat.member.host}/{seat.member.nonce[:8]} has slot {seat.slot}")


def _catch_up(job: Job) -> None:
    """What has happened to the membership while nobody counted."""
    assert job.epoch is not None
    if job.dead:
        changing.begin(job, f"{len(job.dead)} have died while there was no coordinator", died=dict(job.dead))
    for event in job.lessons.ready.values():
        member = job.roster.living.get(event.member)
        if member is not None and member.id in job.ranks and event.epoch >= job.epoch:
            changing.ready(job, member, event)
    job.lessons = Lessons()
