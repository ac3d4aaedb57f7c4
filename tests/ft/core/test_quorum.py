"""What the coordinator answers, situation by situation."""

from __future__ import annotations

from typing import Any

import pytest

from pycomms.ft.core.messages import (
    DONE,
    NOBODY_JOINS,
    Change,
    EpochId,
    Evict,
    Form,
    Refused,
    Verdict,
)
from pycomms.ft.core.phases import TABLE, Phase
from pycomms.ft.core.rule import Rule

from ._job import GATHER, OPERATION, REJOIN, SILENCE, TIMES, Job, at, member, slots_of, training


def test_the_first_epoch_is_formed_at_once_when_all_are_there() -> None:
    job = Job(4)
    for slot in (2, 0, 3):
        job.announce(member(slot), slot)
    assert not job.sent
    job.announce(member(1), 1)
    form = job.take_form()
    assert form.epoch == EpochId(7, 1)
    assert form.previous is None
    assert slots_of(form) == [0, 1, 2, 3]


def test_more_than_half_begin_after_gather_fewer_after_half_of_rejoin() -> None:
    job = Job(4)
    for slot in (0, 1, 3):
        job.announce(member(slot), slot)
    job.pass_(GATHER + 0.1, ["host0", "host1"])
    assert slots_of(job.take_form()) == [0, 1, 3]
    job = Job(4)
    job.announce(member(0), 0)
    job.pass_(REJOIN / 2 - 1, ["host0"])
    assert not job.sent
    job.pass_(2, ["host0"])
    assert slots_of(job.take_form()) == [0]


def test_a_job_that_too_few_come_to_ends() -> None:
    job = Job(4, min_ranks=2)
    job.announce(member(0), 0)
    job.pass_(REJOIN + 1, ["host0"])
    assert job.take(Refused)[member(0)].verdict is Verdict.ENDED
    job.announce(member(1), 1)
    assert job.take(Refused)[member(1)].verdict is Verdict.ENDED


def test_who_wants_more_members_than_there_are_slots_is_told_at_once() -> None:
    job = Job(2)
    job.announce(member(0), 0, min_ranks=3)
    refused = job.take(Refused)[member(0)]
    assert (refused.verdict, refused.reason) == (Verdict.FULL, "min_ranks is 3, expected at most the job's 2 slots")
    job.announce(member(1), 0)
    job.announce(member(2), 1)
    assert len(job.take_form().seats) == 2, "the others are not held up"


def test_members_without_a_slot_get_the_free_ones() -> None:
    job = Job(3)
    job.announce(member(0, "a"), None)
    job.announce(member(1, "b"), 0)
    job.announce(member(2, "c"), None)
    form = job.take_form()
    assert {seat.member.host: seat.slot for seat in form.seats} == {"b": 0, "a": 1, "c": 2}
    job.announce(member(3, "d"), None)
    assert job.take(Refused)[member(3, "d")].verdict is Verdict.FULL


def test_a_death_ends_the_epoch_and_the_rest_form() -> None:
    job, members = training(4)
    job.die(members[1])
    change = job.take_change()
    assert change.broken
    assert change.died == {members[1]: "signal 9"}
    for one in (members[0], members[2], members[3]):
        assert not job.sent
        job.ready(one, suspects=(members[1],))
    form = job.take_form()
    assert slots_of(form) == [0, 2, 3]
    assert form.died == {members[1]: "signal 9"}
    assert [seat.position for seat in form.seats] == [at(3)] * 3


def test_a_newcomer_takes_the_slot_of_the_dead_and_survivors_keep_theirs() -> None:
    job, members = training(3)
    job.die(members[1])
    job.ready(members[0])
    job.ready(members[2])
    job.take_form()
    job.settle(members[0], members[2])
    newcomer = member(1, life=1)
    job.announce(newcomer, 1)
    change = job.take_change()
    assert change.joining == (newcomer,)
    assert not change.broken
    job.ready(members[0])
    job.ready(members[2])
    form = job.take_form()
    assert [seat.member for seat in form.seats] == [members[0], newcomer, members[2]]
    assert form.joined == (newcomer,)


def test_a_newcomer_that_comes_while_an_epoch_forms_waits_until_it_stands() -> None:
    job, members = training(2)
    job.die(members[1])
    job.ready(members[0])
    job.take_form()
    job.announce(member(1, life=1), 1)
    assert not job.sent
    job.settle(members[0])
    assert job.take(Change).keys() == {members[0]}


def test_a_suspect_that_does_not_stand_still_is_evicted_and_others_get_more_time() -> None:
    job, members = training(6)
    for one in members[:4]:
        job.ready(one, suspects=(members[4],))
    job.sent = []
    job.pass_(GATHER + 0.1, ["host0", "host1", "host2"])
    assert job.take(Evict).keys() == {"host2"}
    job.pass_(OPERATION - GATHER - 0.3, ["host0", "host1", "host2"])
    assert not job.sent
    job.pass_(0.4, ["host0", "host1", "host2"])
    form = job.take_form()
    assert slots_of(form) == [0, 1, 2, 3]
    assert form.died.keys() == {members[4], members[5]}


def test_an_evicted_half_has_to_be_confirmed() -> None:
    job, members = training(2)
    job.ready(members[0], suspects=(members[1],))
    job.pass_(GATHER + 0.1, ["host0"])
    assert job.take(Evict)["host0"].member == members[1]
    assert job.phase is Phase.TOO_FEW
    job.die(members[1])
    assert slots_of(job.take_form()) == [0]


def test_who_was_declared_dead_is_refused_whatever_it_says() -> None:
    job, members = training(6)
    for one in members[:5]:
        job.ready(one, suspects=(members[5],))
    job.pass_(GATHER + 0.1, ["host0", "host1", "host2"])
    job.take_form()
    job.ready(members[5])
    assert job.take(Refused)[members[5]].verdict is Verdict.STALE
    job.teach(members[5], EpochId(7, 1), 5)
    assert job.take(Refused)[members[5]].verdict is Verdict.STALE
    assert job.phase is Phase.FORMING


def test_a_failed_regroup_is_followed_by_another_epoch() -> None:
    job, members = training(3)
    job.die(members[2])
    job.ready(members[0])
    job.ready(members[1])
    first = job.take_form()
    job.settle(members[0])
    job.ready(members[1], suspects=(members[0],))
    assert job.take_change().broken
    job.ready(members[0])
    second = job.take_form()
    assert second.epoch > first.epoch
    assert second.previous == first.epoch


def test_who_cannot_form_with_the_others_goes_after_three_tries() -> None:
    job, members = training(6)
    tries = 0
    while not (evicted := job.take(Evict)):
        tries += 1
        for one in members:
            job.ready(one, suspects=(members[0] if one.host == "host2" else members[4],))
    assert tries == 4  # the first epoch stood
    assert evicted.keys() == {"host2"}
    assert job.phase is Phase.FORMING


def test_too_few_wait_for_newcomers_and_then_the_job_ends() -> None:
    job, members = training(3, min_ranks=2)
    job.die(members[1])
    job.die(members[2])
    job.ready(members[0])
    assert job.phase is Phase.TOO_FEW
    job.announce(member(1, life=1), 1)
    assert slots_of(job.take_form()) == [0, 1]
    job, members = training(3, min_ranks=2)
    job.die(members[1])
    job.die(members[2])
    job.ready(members[0])
    job.sent = []
    job.pass_(REJOIN + 1, ["host0"])
    assert job.take(Refused)[members[0]].verdict is Verdict.ENDED


def test_a_slot_that_a_living_process_has_is_refused_but_its_host_knows_better() -> None:
    job, members = training(4)
    job.announce(member(1, "elsewhere"), 1)
    assert job.take(Refused)[member(1, "elsewhere")].verdict is Verdict.DUPLICATE
    assert job.phase is Phase.STABLE
    job.announce(member(1, life=1), 1)
    assert job.take_change().died.keys() == {members[1]}


@pytest.mark.parametrize("slot", [None, 3])
def test_whoever_comes_for_one_whose_connection_has_just_ended_waits(slot: int | None) -> None:
    """Workers without an agent: launchers start another before the silence of the dead one has become a loss."""
    job, members = training(4)
    job.sent += job.quorum.host_lost(job.now, "host1", "its connection was lost")
    job.announce(member(3, "elsewhere"), slot)
    assert not job.sent
    job.ready(members[0], suspects=tuple(members[2:]))
    job.ready(members[1])
    job.pass_(GATHER + 0.1, ["host0", "elsewhere"])
    form = job.take_form()
    assert {seat.member.host: seat.slot for seat in form.seats}["elsewhere"] == (2 if slot is None else slot)


def test_whoever_waits_is_not_refused_for_one_that_has_died_since_it_was_ready() -> None:
    """A launcher without an agent: one worker dies, it ends the other a little later, and starts two again."""
    job = Job(4)
    alone = [member(slot, f"alone{slot}") for slot in range(4)]
    for slot, one in enumerate(alone):
        job.announce(one, slot)
    job.take_form()
    job.settle(*alone)
    job.sent += job.quorum.host_lost(job.now, "alone3", "its connection was lost")
    job.pass_(SILENCE - 0.5, ["alone0", "alone1", "alone2"])
    job.ready(alone[2], suspects=(alone[3],))
    job.sent += job.quorum.host_lost(job.now, "alone2", "its connection was lost")
    newcomers = [member(slot, f"new{slot}") for slot in (4, 5)]
    for one in newcomers:
        job.announce(one, None)
    for one in alone[:2]:
        job.ready(one, suspects=(alone[3],))
    living = ["alone0", "alone1", "new4", "new5"]
    job.pass_(1.0, living)
    assert not [one for one in job.sent if isinstance(one.notice, Refused)]
    form = job.take_form()
    assert [seat.member for seat in form.seats] == [*alone[:3], newcomers[0]]
    for one in (*alone[:2], newcomers[0]):  # a group with a dead member cannot be made
        job.ready(one, suspects=(alone[2],))
    job.pass_(SILENCE + GATHER, living)
    assert {seat.member for seat in job.take_form().seats} == {*alone[:2], *newcomers}


def test_a_lost_host_ends_nothing_until_another_misses_it() -> None:
    job, members = training(6)
    job.sent += job.quorum.host_lost(job.now, "host2", "reset")
    job.pass_(3 * SILENCE, ["host0", "host1"])
    assert not job.sent
    assert job.phase is Phase.STABLE
    for one in members[:4]:
        job.ready(one, suspects=(members[5],))
    form = job.take_form()
    assert slots_of(form) == [0, 1, 2, 3]
    assert "host2 is lost" in form.died[members[4]]


def test_half_may_go_on_without_a_host_that_fell_silent_and_fewer_may_not() -> None:
    job, members = training(4)
    job.pass_(SILENCE + 0.1, ["host0"])
    job.ready(members[0], suspects=(members[2],))
    job.ready(members[1], suspects=(members[2],))
    assert slots_of(job.take_form()) == [0, 1]
    job, members = training(6)
    job.pass_(SILENCE + 0.1, ["host0"])
    job.ready(members[0], suspects=(members[2], members[4]))
    job.ready(members[1], suspects=(members[2], members[4]))
    assert job.phase is Phase.TOO_FEW
    assert "not a majority" in job.quorum.view().reason


def test_members_that_were_cut_off_come_back_into_a_minority() -> None:
    job, members = training(6)
    job.pass_(SILENCE + 0.1, ["host0"])
    for one in members[:2]:
        job.ready(one, suspects=(members[2], members[4]))
    job.sent = []
    job.teach(members[2], job.epoch, 2)
    assert job.take(Change).keys() == {members[2]}
    job.ready(members[2])
    job.ready(members[3])
    assert slots_of(job.take_form()) == [0, 1, 2, 3]


def test_whoever_has_missed_its_epoch_is_told_again() -> None:
    job, members = training(2)
    job.die(members[1])
    job.ready(members[0])
    form = job.take_form()
    job.ready(members[0], epoch=EpochId(7, 1))
    assert job.take(Form)[members[0]] is form
    job.teach(members[0], EpochId(7, 1), 0)
    assert job.take(Form)[members[0]] is form


def test_who_has_moved_on_since_the_epoch_was_decided_stands_still_for_the_next() -> None:
    job, members = training(2)
    job.die(members[1])
    job.ready(members[0])
    job.take_form()
    job.ready(members[0], at(9), epoch=EpochId(7, 1))
    assert job.take_form().seats[0].position == at(9)


def test_done_is_not_a_death_and_the_last_ends_the_job() -> None:
    job, members = training(3, min_ranks=2)
    job.leave(members[0], DONE)
    told = job.take(Change)
    assert told == dict.fromkeys(members[1:], Change(epoch=job.epoch, reason=NOBODY_JOINS))
    job.leave(members[1], DONE)
    assert not job.sent
    job.ready(members[2], suspects=(members[0],))
    assert slots_of(job.take_form()) == [2]
    job.announce(member(0, life=1), 0)
    assert job.take(Refused)[member(0, life=1)].verdict is Verdict.ENDED
    job.settle(members[2])
    job.leave(members[2], DONE)
    assert job.phase is Phase.ENDED


def test_the_last_words_of_one_that_was_declared_dead_make_it_certain() -> None:
    job, members = training(2)
    job.ready(members[0], suspects=(members[1],))
    job.pass_(GATHER + 0.1, ["host0"])
    assert job.phase is Phase.TOO_FEW
    job.leave(members[1], "preempted")
    assert slots_of(job.take_form()) == [0]
    job.leave(members[1], "preempted")
    assert not job.sent


def test_leaving_before_the_end_is_a_death_with_a_reason() -> None:
    job, members = training(3)
    job.leave(members[0], "preempted")
    assert job.take_change().died == {members[0]: "it left: preempted"}


@pytest.mark.parametrize("changed", [{"min_ranks": 0}, {"min_ranks": 4}, {"expected": 5}, {"attempts": 0}])
def test_a_rule_that_contradicts_itself_is_refused(changed: dict[str, int]) -> None:
    given: dict[str, Any] = {"min_ranks": 1, "max_ranks": 4, "expected": 3, "timeouts": TIMES, **changed}
    with pytest.raises(ValueError, match="expected"):
        Rule(**given)


def test_every_phase_can_be_reached_and_none_but_the_last_is_final() -> None:
    reached = set(TABLE.values()) | {Phase.GATHERING}
    assert reached == set(Phase)
    left = {phase for phase, _ in TABLE}
    assert set(Phase) - left == {Phase.ENDED}
