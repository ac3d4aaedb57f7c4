"""The smaller plan fails as well, and nothing can be left out of it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pycomms.chaos.core.plan import Fault, Plan, Trigger
from pycomms.chaos.core.shrink import ddmin, shrink

FAULT = Fault(kind="kill", at=Trigger(step=1), ranks=(0,), settings={"signal": "SIGKILL"})
MANY = [replace(FAULT, at=Trigger(step=step)) for step in range(1, 13)]


@given(st.sets(st.sampled_from(range(12)), min_size=1))
@settings(max_examples=100)
def test_what_is_needed_is_found(needed: set[int]) -> None:
    wanted = {MANY[number].at.step for number in needed}
    trials = 0

    def fails(plan: Plan) -> bool:
        nonlocal trials
        trials += 1
        return wanted <= {fault.at.step for fault in plan.faults}

    smaller = shrink(Plan(name="x", faults=tuple(MANY)), fails)
    assert {fault.at.step for fault in smaller.faults} == wanted
    assert trials <= len(MANY) ** 2 + 3 * len(MANY)


def test_ranks_and_times_are_left_out_too() -> None:
    whole = Plan(name="x", faults=(replace(FAULT, ranks=(0, 1, 2), times=4), replace(FAULT, kind="abort", settings={})))

    def fails(plan: Plan) -> bool:
        return any({0, 2} <= set(fault.ranks) and fault.times >= 2 for fault in plan.faults)

    (left,) = shrink(whole, fails).faults
    assert (left.ranks, left.times) == ((0, 2), 2)


def test_one_item_stays() -> None:
    assert ddmin(MANY[:1], lambda _: True) == MANY[:1]
