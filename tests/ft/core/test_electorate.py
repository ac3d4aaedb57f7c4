"""No two coordinators that know of each other's members only what they were told let both halves go on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pycomms.ft.core.electorate import Electorates
from pycomms.ft.core.messages import EpochId, MemberId

MEMBERS = [MemberId("h", str(one)) for one in range(6)]
subset = st.sets(st.integers(0, 5)).map(lambda ranks: {MEMBERS[rank] for rank in ranks})


def allows(standing: set[MemberId], known_dead: set[MemberId], silent: set[MemberId]) -> bool:
    electorates = Electorates()
    electorates.announced(EpochId(1, 1), MEMBERS)
    electorates.settled(EpochId(1, 1))
    for one in known_dead:
        electorates.died(one)
        electorates.died(one)  # told twice
    for one in standing:
        electorates.stands(one)
    return not electorates.objection(silent.__contains__, standing.__contains__)


@given(subset, subset, subset, subset, subset)
def test_at_most_one_of_two_coordinators_may_go_on(
    dead: set[MemberId], first: set[MemberId], second: set[MemberId], told: set[MemberId], told_too: set[MemberId]
) -> None:
    """The first has heard all members before; the second has taken over and has heard only its own."""
    first, second = first - dead, second - dead - first
    if first and second:
        everybody = set(MEMBERS)
        one = allows(first, dead & told, everybody - first)
        other = allows(second, dead & told_too, set())
        assert not (one and other)


def test_an_epoch_that_came_to_nothing_does_not_replace_the_one_before() -> None:
    electorates = Electorates()
    electorates.announced(EpochId(1, 1), MEMBERS[:5])
    electorates.settled(EpochId(1, 1))
    electorates.announced(EpochId(1, 2), MEMBERS[:3])
    for one in MEMBERS[:2]:
        electorates.stands(one)
    stands = set(MEMBERS[:2]).__contains__
    assert "2 of the 5" in electorates.objection(lambda _: False, stands)
    electorates.settled(EpochId(1, 2))
    assert not electorates.objection(lambda _: False, stands)
