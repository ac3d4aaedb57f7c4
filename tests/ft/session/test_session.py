"""Real processes train, die and come: what is left must be what an undisturbed run gives, bit for bit."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ._job import Job, steps_of
from ._reference import follow
from ._training import SAMPLES, Plan, train

pytestmark = pytest.mark.needs_torch("2.14", "elastic sessions")

MOMENTS = ("forward", "backward", "before_vote", "after_vote")


def check(job: Job, plan: Plan, survivors: int, schedule: dict[int, list[int]] | None = None) -> None:
    """What holds of every run: one state, the numbers of the reference, each sample once."""
    weights = job.heard("weights")
    assert len(weights) == survivors
    assert all(one == weights[0] for one in weights)
    by_step = steps_of(job)
    assert sorted(by_step) == list(range(1, plan.until + 1))
    slots_of = {step: sorted(of_slot) for step, of_slot in by_step.items()}
    for step, of_slot in by_step.items():
        worlds = {world for world, _, _ in of_slot.values()}
        assert len(worlds) == 1, f"step {step}: members disagree about how many they are: {worlds}"
    slots_of.update(schedule or {})  # who died behind the commit of a step took part in it, and has not said so
    losses, final = follow(plan, slots_of)
    for step, of_slot in by_step.items():
        for slot, (_, own, _) in of_slot.items():
            assert own == losses[step - 1][slots_of[step].index(slot)], f"step {step}, slot {slot}"
    assert weights[0] == final
    ledgers = job.heard("ledger")
    assert all(one == ledgers[0] for one in ledgers)


@pytest.mark.parametrize("ddp", [False, True], ids=["plain", "ddp"])
def test_nobody_dies(ddp: bool) -> None:
    plan = Plan(ddp=ddp, until=8)
    with Job(train, plan, slots=3) as job:
        job.run()
    check(job, plan, survivors=3)
    used = [index for of_slot in steps_of(job).values() for _, _, mine in of_slot.values() for index in mine]
    assert Counter(used) == Counter(range(SAMPLES))  # 8 steps of 3 members with 4 samples: one epoch
    assert not job.heard("reason")
    assert set(job.exits.values()) == {0}


@pytest.mark.parametrize("ddp", [False, True], ids=["plain", "ddp"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_one_dies(moment: str, ddp: bool) -> None:
    plan = Plan(ddp=ddp, until=9, deaths=(("m2", 4, moment),))
    with Job(train, plan, slots=3) as job:
        job.run()
    # Behind the vote the step is committed: the dead member took part in it.
    schedule = {4: [0, 1, 2]} if moment == "after_vote" else None
    check(job, plan, survivors=2, schedule=schedule)
    reasons = job.heard("reason")
    assert reasons
    assert all("signal 9" in reason or "rank 1" in reason for _, _, reason in reasons), reasons
    lost = [step for step, is_committed, _ in reasons if not is_committed]
    assert all(step in (4, 5) for step in lost)
    assert len(job.forms) == 2


def test_whoever_comes_in_its_place_has_the_state() -> None:
    plan = Plan(until=10, deaths=(("m2", 3, "backward"),), holds=(6,))
    with Job(train, plan, slots=3) as job:
        job.run_until(job.has_heard("holding", 2))
        job.start(1)
        job.run()
    check(job, plan, survivors=3)
    by_step = steps_of(job)
    assert sorted(by_step[7]) == [0, 2]  # in its vote they agree to stop behind it
    assert sorted(by_step[8]) == [0, 1, 2]
    (newcomer,) = (one for one in job.said if one.what == "recoveries" and one.slot == 1)
    assert [one.restored for one in newcomer.value] == [True]
    survivors = [one.value for one in job.said if one.what == "recoveries" and one.slot != 1]
    assert all(not one.restored for each in survivors for one in each[1:])


@pytest.mark.parametrize("part", ["_fetch", "_stage"])
def test_a_death_while_a_state_is_fetched_costs_another_try(part: str) -> None:
    """Of the newcomer itself, or of one that serves it."""
    dying = "m4" if part == "_fetch" else "m3"
    plan = Plan(until=10, deaths=(("m2", 3, "backward"),), holds=(6,), extra={"die_restoring": ((dying, part),)})
    with Job(train, plan, slots=3) as job:
        job.run_until(job.has_heard("holding", 2))
        job.start(1)
        job.run()
    check(job, plan, survivors=2, schedule={7: [0, 2]})  # who dies serving has not said that it took part
    left = [0, 2] if part == "_fetch" else [0, 1]
    assert sorted(steps_of(job)[8]) == left
    assert len(job.forms) == 4


def schedule_of(seed: int) -> tuple[Plan, list[tuple[int, int]]]:
    """A job of 4 with deaths at random moments, and (step, slot) of those who come in their place."""
    draw = random.Random(seed)
    deaths: list[tuple[str, int, str]] = []
    joins: list[tuple[int, int]] = []
    names = {slot: f"m{slot + 1}" for slot in range(4)}
    step, started = 1, 4
    for _ in range(3):
        step += draw.randint(2, 4)
        victim = draw.randrange(4)
        deaths.append((names[victim], step, draw.choice(MOMENTS)))
        step += draw.randint(1, 3)
        joins.append((step, victim))
        started += 1
        names[victim] = f"m{started}"
        step += 1
    return Plan(until=step + 4, deaths=tuple(deaths), holds=tuple(step for step, _ in joins)), joins


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(3))
def test_any_schedule_of_deaths_and_joins(first: int, long: bool) -> None:
    """Losses and weights are those of an undisturbed run with the same members at the same steps, bit for bit."""
    for seed in range(first, 20 if long else first + 1, 3):
        plan, joins = schedule_of(seed)
        with Job(train, plan, slots=4) as job:
            for count, (_, slot) in enumerate(joins, 1):
                job.run_until(job.has_heard("holding", 3 * count))
                job.start(slot)
            job.run()
        died_behind = {step: [0, 1, 2, 3] for _, step, moment in plan.deaths if moment == "after_vote"}
        check(job, plan, survivors=4, schedule=died_behind)


def test_two_die_at_once_and_the_last_one_goes_on() -> None:
    plan = Plan(until=8, deaths=(("m1", 3, "backward"), ("m3", 3, "forward")))
    with Job(train, plan, slots=3) as job:
        job.run()
    check(job, plan, survivors=1)


def test_one_dies_while_the_others_recover() -> None:
    """The second death is in the step that is done again."""
    plan = Plan(until=8, deaths=(("m1", 3, "backward"), ("m2", 3, "before_vote")))
    with Job(train, plan, slots=4) as job:
        job.run()
    check(job, plan, survivors=2)


@pytest.mark.parametrize("ddp", [False, True], ids=["plain", "ddp"])
def test_the_batch_stays_as_large(ddp: bool) -> None:
    plan = Plan(until=8, ddp=ddp, world="constant", micro_batches=6, deaths=(("m3", 4, "backward"),))
    with Job(train, plan, slots=3) as job:
        job.run()
    check(job, plan, survivors=2)
    sizes = {step: sum(len(used) for _, _, used in of_slot.values()) for step, of_slot in steps_of(job).items()}
    assert set(sizes.values()) == {24}


def test_a_member_in_doubt_commits_what_another_has_committed() -> None:
    plan = Plan(until=8, extra={"doubt": ("m2", 4)})
    with Job(train, plan, slots=3) as job:
        job.run()
    by_step = steps_of(job)
    assert sorted(by_step[4]) == [0, 1, 2]
    check(job, plan, survivors=3)
    (plans,) = (one.value for one in job.said if one.what == "recoveries" and one.slot == 1)
    assert "commit it as others have" in plans[1].plan
