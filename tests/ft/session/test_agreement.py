"""Members agree on something: nobody ever gets an answer that is not everybody's."""

from __future__ import annotations

import pytest

from pycomms import ft

from ._agreeing import ASKED, UNTIL, Plan, ask
from ._job import Job

pytestmark = pytest.mark.needs_torch("2.14", "elastic sessions")


def answers(job: Job) -> dict[int, list[tuple[int, int, ft.Agreement]]]:
    """(slot, attempt, answer) by step."""
    found: dict[int, list[tuple[int, int, ft.Agreement]]] = {}
    for one in job.said:
        if one.what == "answer":
            step, attempt, answer = one.value
            found.setdefault(step, []).append((one.slot, attempt, answer))
    return found


def agreed(job: Job, step: int) -> ft.Agreement:
    given = {answer for _, _, answer in answers(job)[step]}
    assert len(given) == 1, f"step {step}: {given}"
    return given.pop()


@pytest.mark.parametrize("no", [(), (1,), (0, 2)])
def test_the_answer_is_yes_if_all_say_so(no: tuple[int, ...]) -> None:
    with Job(ask, Plan(no=no), slots=3) as job:
        job.run()
    for step in range(1, UNTIL + 1):
        assert agreed(job, step) == ft.Agreement(value=step != ASKED or not no)
        assert len(answers(job)[step]) == 3
    assert set(job.exits.values()) == {0}


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("round_", [1, 3])
def test_a_member_that_dies_in_the_call_is_named_and_all_others_get_one_answer(round_: int, slot: int) -> None:
    with Job(ask, Plan(no=(slot,), dies=(slot, round_)), slots=3) as job:
        job.run()
    given = answers(job)[ASKED]
    assert sorted(who for who, _, _ in given) == sorted({0, 1, 2} - {slot})
    answer = agreed(job, ASKED)
    # Behind round 1 the others know what it has said, and nobody had died when they learned it.
    assert answer == (ft.Agreement(value=True, failed=(slot,)) if round_ == 1 else ft.Agreement(value=False))
    assert {attempt for _, attempt, _ in given} == {1}
    assert agreed(job, ASKED + 1) == ft.Agreement(value=True)


def test_what_a_dead_member_has_got_is_what_the_others_get() -> None:
    """Nobody else has heard of it, and without the dead member's flag it would be another answer."""
    with Job(ask, Plan(no=(1,), dies=(1, 4), loses=(0, 2)), slots=3) as job:
        job.run()
    assert answers(job)[ASKED][0] == (1, 0, ft.Agreement(value=False))
    assert sorted((who, attempt) for who, attempt, _ in answers(job)[ASKED]) == [(0, 1), (1, 0), (2, 1)]
    assert agreed(job, ASKED) == ft.Agreement(value=False)


def test_a_newcomer_gets_the_answers_of_the_step_that_it_joins() -> None:
    with Job(ask, Plan(dies=(1, 1), holds=True), slots=3) as job:
        job.run_until(job.has_heard("holding", 2))
        job.start(1)
        job.run()
    assert agreed(job, ASKED) == ft.Agreement(value=True, failed=(1,))
    assert len(answers(job)[UNTIL]) == 3
    assert agreed(job, UNTIL) == ft.Agreement(value=True)
