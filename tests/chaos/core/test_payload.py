"""The sum says who is in it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pycomms.chaos.core import payload

SLOTS = st.sets(st.integers(0, payload.SLOTS - 1), min_size=1)


def contribution(slot: int, step: int, elements: int) -> list[int]:
    return [4**slot, *(place + payload.slope(slot, step) for place in range(1, elements))]


@given(SLOTS, st.integers(1, 10_000), st.integers(2, 40))
def test_a_sum_is_decoded(members: set[int], step: int, elements: int) -> None:
    sum_ = [sum(column) for column in zip(*(contribution(slot, step, elements) for slot in members), strict=True)]
    assert payload.members_of(sum_[0]) == sorted(members)
    assert sum(sum_) == payload.total(step, sorted(members), elements)
    assert sum(sum_) < 2**53 * elements
    assert sum_[0] < 2**53


@given(SLOTS, st.data())
def test_one_that_is_in_twice_is_found(members: set[int], data: st.DataObject) -> None:
    twice = data.draw(st.sampled_from(sorted(members)))
    assert payload.members_of(sum(4**slot for slot in members) + 4**twice) is None


@given(SLOTS, st.integers(1, 1000), st.integers(1, 1000), st.data())
def test_a_contribution_of_another_step_is_another_number(
    members: set[int], step: int, by: int, data: st.DataObject
) -> None:
    late = data.draw(st.sampled_from(sorted(members)))
    right = payload.total(step, sorted(members), 8)
    assert right - payload.total(step, [late], 8) + payload.total(step + by, [late], 8) != right
