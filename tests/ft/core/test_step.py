"""The step protocol of members of one group, in any interleaving."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycomms.ft.core.messages import MemberId, Position, Seat, Standing
from pycomms.ft.core.recovery import plan
from pycomms.ft.core.step import TABLE, Do, Happened, OutOfTurnError, Progression, Stage, advance, recover, restored

START = Progression(stage=Stage.COMPUTING, position=Position(committed=4, standing=Standing.TRAINED), is_open=True)


def after(*happened: Happened, start: Progression = START) -> Progression:
    for one in happened:
        start, _ = advance(start, one)
    return start


def test_a_step_is_committed() -> None:
    voted = after(Happened.REDUCED, Happened.VOTE)
    assert voted.position.in_doubt == 5
    now, actions = advance(voted, Happened.ALL)
    assert actions == (Do.COMMIT,)
    assert now == Progression(
        stage=Stage.COMPUTING, position=Position(committed=5, standing=Standing.TRAINED), is_open=True
    )


def test_a_step_is_committed_before_all_stop() -> None:
    now, actions = advance(after(Happened.REDUCED, Happened.VOTE), Happened.ALL_AND_STOP)
    assert actions == (Do.COMMIT, Do.STAND)
    assert (now.stage, now.position.committed, now.position.in_doubt, now.is_open) == (Stage.STANDING, 5, None, False)


def test_a_vote_against_discards_on_all() -> None:
    now, actions = advance(after(Happened.REDUCED, Happened.VOTE), Happened.NOT_ALL)
    assert actions == (Do.DISCARD,)
    assert now == START


@pytest.mark.parametrize("before", [(), (Happened.REDUCED,), (Happened.REDUCED, Happened.VOTE)])
def test_a_failure_keeps_the_doubt_and_nothing_else(before: tuple[Happened, ...]) -> None:
    now, actions = advance(after(*before), Happened.FAILED)
    assert actions == (Do.STAND,)
    assert now.stage is Stage.STANDING
    assert now.is_open
    assert now.position.in_doubt == (5 if len(before) == 2 else None)


def test_what_cannot_happen_is_refused() -> None:
    with pytest.raises(OutOfTurnError, match="'all' has happened while computing"):
        advance(START, Happened.ALL)


def test_a_member_that_stands_still_says_so_again_when_it_is_asked() -> None:
    now, actions = advance(after(Happened.FAILED), Happened.REMINDED)
    assert actions == (Do.STAND,)
    assert now == after(Happened.FAILED)


def test_half_restored_is_said_to_be() -> None:
    now = after(Happened.FORM, Happened.FORMED, Happened.LOADING, Happened.FAILED, start=Progression())
    assert now.position.standing is Standing.HOLLOW


def test_every_stage_but_the_last_can_be_left() -> None:
    assert {stage for stage, _ in TABLE} == set(Stage) - {Stage.DONE}
    assert {stage for stage, _ in TABLE.values()} == set(Stage)


@given(st.integers(1, 6), st.data())
def test_all_survivors_of_any_failure_come_to_the_same_step(members: int, data: st.DataObject) -> None:
    """Each may be struck at any point; whoever sees the vote pass sees it only if all have voted."""
    points = [data.draw(st.integers(0, 3)) for _ in range(members)]  # computing, reduced, voted, knows
    if min(points) < 2:
        points = [min(point, 2) for point in points]
    path = (Happened.REDUCED, Happened.VOTE, Happened.ALL)
    survivors: list[Progression] = []
    for point in points:
        if data.draw(st.booleans()) or not survivors:
            survivors.append(after(*path[:point], Happened.FAILED))
    seats = [
        Seat(member=MemberId("h", str(rank)), slot=rank, handle="", position=one.position)
        for rank, one in enumerate(survivors)
    ]
    done = plan(seats)
    ends = set()
    for rank, one in enumerate(survivors):
        formed = after(Happened.FORM, Happened.FORMED, start=one)
        recovered, actions = recover(formed, done, rank)
        trains, settled = restored(recovered, done, rank)
        assert settled == (Do.SETTLE,)
        assert (Do.COMMIT in actions) == (rank in done.committing)
        assert (Do.DISCARD in actions) == (one.is_open and rank not in done.committing)
        ends.add(trains)
    assert ends == {
        Progression(
            stage=Stage.COMPUTING, position=Position(committed=done.base, standing=Standing.TRAINED), is_open=True
        )
    }
    assert done.base == (5 if any(one.position.committed == 5 for one in survivors) else 4)
