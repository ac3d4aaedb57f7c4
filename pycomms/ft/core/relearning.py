"""A coordinator that is younger than the membership is told of it by the members.

It decides nothing before it has heard from every seat, or has waited: until then whoever it has not heard from may be
on its way.
"""

from __future__ import annotations

from pycomms.ft.core import changing
from pycomms.ft.core.job import Job
from pycomms.ft.core.messages import Announce, Form, MemberId, Ready, Seat, Standing, Teach, Verdict
from pycomms.ft.core.phases import Cause, Phase
from pycomms.ft.core.roster import Member, State


def is_open(job: Job) -> bool:
    return job.phase in (Phase.GATHERING, Phase.RELEARNING)


def teach(job: Job, event: Announce) -> None:
    assert event.epoch is not None
    if job.phase is Phase.GATHERING:
        job.move(Cause.TAUGHT, "members of an epoch have come that this coordinator has not made", wait=job.gather)
    job.lessons.announce(event)
    _ask(job, job.lessons.whom_to_ask(event))


def ready(job: Job, event: Ready) -> None:
    """Perhaps before the announcement of the member."""
    if is_open(job):
        job.lessons.hear_ready(event)


def died(job: Job, member: MemberId, how: str) -> None:
    if is_open(job):
        job.lessons.lose(member, how)


def waited(job: Job) -> None:
    """Some were not heard in time: they count as members that this coordinator has not heard from."""
    if job.lessons.seats:
        adopt(job)
        return
    _ask(job, job.lessons.ask_again())
    job.wake = job.now + job.gather


def adopt(job: Job) -> None:
    """The membership is what was told, and whoever waits to be let in is treated as always."""
    lessons = job.lessons
    assert lessons.newest is not None
    job.outlive(lessons.newest)
    job.epoch = lessons.newest
    older = [one.epoch for one in lessons.announced.values() if one.epoch is not None and one.epoch < lessons.newest]
    job.form = Form(
        epoch=lessons.newest,
        previous=max(older, default=None),
        seats=lessons.seats,
        reason="told again by a coordinator that has come back",
    )
    job.ranks = {seat.member: rank for rank, seat in enumerate(lessons.seats)}
    job.electorates.announced(lessons.newest, job.ranks)
    for seat in lessons.seats:
        _take_seat(job, seat)
    for member in lessons.announced.keys() - job.ranks.keys():
        job.refuse(member, Verdict.STALE, "its epoch is over and it was not in the next")
    job.move(Cause.RECALLED, str(lessons))
    _catch_up(job)


def _ask(job: Job, host: str | None) -> None:
    if host is not None:
        assert job.lessons.newest is not None
        job.send(host, Teach(epoch=job.lessons.newest))


def _take_seat(job: Job, seat: Seat) -> None:
    how = job.lessons.dead.get(seat.member)
    if how is not None:
        job.dead[seat.member] = how
        job.electorates.died(seat.member)
        return
    _make_room(job, seat)
    told = job.lessons.announced.get(seat.member)
    position = told.position if told else seat.position
    job.roster.add(
        Member(
            id=seat.member,
            slot=seat.slot,
            pid=told.pid if told else 0,
            handle=told.handle if told else seat.handle,
            position=position,
            state=State.TRAINING,
            trained=position.standing is Standing.LOADED,
        )
    )
    if told is None:
        job.hosts.expect(job.now, seat.member.host)
    elif told.epoch != job.epoch:
        assert job.form is not None
        job.send(seat.member, job.form)


def _make_room(job: Job, seat: Seat) -> None:
    """A newcomer that was taken for the one in that slot."""
    holder = job.roster.holder(seat.slot)
    if holder is None:
        return
    job.roster.remove(holder.id, None)
    job.refuse(holder.id, Verdict.DUPLICATE, f"{seat.member.host}/{seat.member.nonce[:8]} has slot {seat.slot}")


def _catch_up(job: Job) -> None:
    """What has happened to the membership while nobody counted."""
    if job.dead:
        changing.begin(job, f"{len(job.dead)} have died while there was no coordinator", died=dict(job.dead))
    for event in job.lessons.ready.values():
        member = job.roster.living.get(event.member)
        if member is not None and event.epoch == job.epoch:
            changing.ready(job, member, event)
