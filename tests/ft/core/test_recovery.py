"""What the members of a new epoch do, for any positions that they can be in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycomms.ft.core.messages import MemberId, Position, Seat, Standing
from pycomms.ft.core.recovery import NothingToRestoreFromError, has_lost_all, plan


def seats_of(positions: list[Position]) -> list[Seat]:
    return [
        Seat(member=MemberId("h", str(rank)), slot=rank, handle="", position=one) for rank, one in enumerate(positions)
    ]


def trained(committed: int, *, doubts: bool = False) -> Position:
    return Position(committed=committed, in_doubt=committed + 1 if doubts else None, standing=Standing.TRAINED)


@st.composite
def possible(draw: st.DrawFn) -> list[Position]:
    """Survivors of one epoch: each has committed ``step``, is in doubt about it, or has not voted for it; if one has
    committed it, all have voted. Then any newcomers, with or without a checkpoint."""
    step = draw(st.integers(1, 5))
    if draw(st.booleans()):
        survivors = [trained(step - 1 + one, doubts=one == 0) for one in draw(st.lists(st.integers(0, 1), max_size=6))]
    else:
        survivors = [trained(step - 1, doubts=one) for one in draw(st.lists(st.booleans(), max_size=6))]
    newcomer = st.one_of(
        st.just(Position()),
        st.integers(1, 9).map(lambda committed: Position(committed=committed, standing=Standing.LOADED)),
        st.just(Position(standing=Standing.HOLLOW)),
    )
    return draw(st.permutations([*survivors, *draw(st.lists(newcomer, max_size=3))]))


@given(possible())
def test_no_survivor_goes_back_or_restores_and_all_end_at_the_base(positions: list[Position]) -> None:
    try:
        done = plan(seats_of(positions))
    except NothingToRestoreFromError:
        assert all(one.standing is Standing.HOLLOW for one in positions)
        return
    assert done.sources
    assert set(done.sources) | set(done.restoring) == set(range(len(positions)))
    assert not set(done.sources) & set(done.restoring)
    for rank, one in enumerate(positions):
        after = one.committed + (rank in done.committing)
        assert rank in done.restoring or after == done.base
        if one.standing is Standing.TRAINED:
            assert done.base >= one.committed
            assert rank not in done.restoring
    for ranks in (done.committing, done.discarding, done.sources, done.restoring):
        assert list(ranks) == sorted(ranks)


@given(possible())
def test_all_who_are_in_doubt_do_the_same(positions: list[Position]) -> None:
    doubting = {rank for rank, one in enumerate(positions) if one.in_doubt is not None}
    if not doubting:
        return
    done = plan(seats_of(positions))
    assert doubting in (set(done.committing), set(done.discarding))
    somebody = any(one.standing is Standing.TRAINED and one.in_doubt is None for one in positions)
    committed = {one.committed for one in positions if one.standing is Standing.TRAINED}
    assert bool(done.committing) == (somebody and len(committed) == 2)


def test_a_checkpoint_of_a_step_that_the_survivors_gave_up_does_not_count() -> None:
    done = plan(seats_of([trained(4, doubts=True), Position(committed=5, standing=Standing.LOADED)]))
    assert done.base == 4
    assert done.discarding == (0,)
    assert done.restoring == (1,)


def test_where_nobody_has_trained_the_newest_checkpoint_counts() -> None:
    older, newer = (Position(committed=step, standing=Standing.LOADED) for step in (3, 5))
    done = plan(seats_of([older, Position(), newer]))
    assert (done.base, done.sources, done.restoring) == (5, (2,), (0, 1))


def test_where_all_are_half_restored_only_a_checkpoint_helps() -> None:
    with pytest.raises(NothingToRestoreFromError, match="half restored"):
        plan(seats_of([Position(standing=Standing.HOLLOW)] * 2))


@pytest.mark.parametrize(
    "positions, is_first, lost",
    [
        ([Position(), Position()], True, False),
        ([Position(), Position()], False, True),
        ([Position(), Position(committed=4, standing=Standing.LOADED)], False, True),
        ([Position(), Position(standing=Standing.HOLLOW)], False, True),
        ([Position(), trained(3)], False, False),
    ],
)
def test_what_is_lost_when_nobody_is_left_who_has_trained(
    positions: list[Position], is_first: bool, lost: bool
) -> None:
    assert has_lost_all(seats_of(positions), is_first_epoch=is_first) is lost
