"""What a coordinator does that knows nothing of the job, for it has just come back."""

from __future__ import annotations

from pycomms.ft.core.messages import (
    EpochId,
    Form,
    MemberId,
    Position,
    Seat,
    Teach,
)
from pycomms.ft.core.phases import Phase

from ._job import GATHER, OPERATION, REJOIN, SILENCE, Job, member, slots_of, training


def test_a_blank_coordinator_remembers_deaths_of_members_that_it_is_told_of_later() -> None:
    members = [member(slot) for slot in range(4)]
    seats = _seats(members)
    job = Job(4, boot=9)
    job.die(members[3])
    job.teach(members[0], EpochId(7, 1), 0, seats[:2])
    job.teach(members[1], EpochId(7, 1), 1)
    assert job.phase is Phase.STABLE
    job.teach(members[1], EpochId(7, 2), 1, seats)
    job.teach(members[2], EpochId(7, 2), 2)
    for one in members[:3]:
        job.ready(one)
    assert slots_of(job.take_form()) == [0, 1, 2]


def test_an_epoch_that_nobody_was_ever_in_is_forgotten_with_its_coordinator() -> None:
    members = [member(slot) for slot in range(2)]
    job = Job(2, boot=3)
    for slot, one in enumerate(members):
        job.announce(one, slot)
        if slot == 0:
            job.ready(one, Position(), epoch=EpochId(7, 1))
    assert job.phase is Phase.RELEARNING
    job.pass_(GATHER + 0.1, ["host0"])
    form = job.take_form()
    assert form.epoch == EpochId(8, 1)
    assert slots_of(form) == [0, 1]


def test_a_blank_coordinator_is_taught_and_changes_nothing() -> None:
    old, members = training(4)
    old.die(members[3])
    for one in members[:3]:
        old.ready(one)
    form = old.take_form()
    job = Job(4, boot=9)
    job.teach(members[2], form.epoch, 2)
    assert job.take(Teach).keys() == {"host1"}
    job.teach(members[2], form.epoch, 2, form.seats)
    for slot in (0, 1):
        job.teach(members[slot], form.epoch, slot)
    assert job.phase is Phase.STABLE
    assert job.epoch == form.epoch
    assert not job.sent
    job.die(members[0])
    job.ready(members[1])
    job.ready(members[2])
    assert job.take_form().epoch == EpochId(9, 1)


def test_a_blank_coordinator_whose_clock_was_set_back_goes_on_counting() -> None:
    members = [member(0), member(1)]
    job = Job(2, boot=3)
    job.teach(members[0], EpochId(7, 1), 0, _seats(members))
    job.teach(members[1], EpochId(7, 1), 1)
    job.die(members[1])
    job.ready(members[0])
    assert job.take_form().epoch == EpochId(8, 1)


def test_those_that_a_blank_coordinator_has_not_heard_are_not_dead() -> None:
    members = [member(slot) for slot in range(4)]
    job = Job(4, boot=9)
    job.teach(members[0], EpochId(7, 1), 0, _seats(members))
    job.teach(members[1], EpochId(7, 1), 1)
    job.pass_(GATHER + SILENCE + 1, ["host0"])
    assert not job.take(Form)
    for one in members[:2]:
        job.ready(one, suspects=(members[2],))
    job.pass_(2 * OPERATION, ["host0"])
    assert job.phase is Phase.TOO_FEW  # half would be enough for a coordinator that had heard the others


def test_a_coordinator_that_hears_of_a_later_one_is_silent() -> None:
    job, members = training(3)
    job.ready(members[0], epoch=EpochId(8, 1))
    assert job.phase is Phase.SUPERSEDED
    assert not job.sent
    job.die(members[1])
    job.pass_(REJOIN)
    assert not job.sent
    assert job.quorum.next_deadline() is None


def _seats(members: list[MemberId]) -> tuple[Seat, ...]:
    return tuple(
        Seat(member=one, slot=slot, handle=f"{one.nonce}:new", position=Position()) for slot, one in enumerate(members)
    )
