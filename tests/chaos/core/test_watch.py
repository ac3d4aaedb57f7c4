"""When a fault is due, from what a process comes to."""

from __future__ import annotations

from typing import Any

from pycomms.chaos._inside._pycomms_chaos._watch import Watch


def watch(**at: Any) -> Watch:
    return Watch(0, {"kind": "kill", "at": at})


def test_a_step_or_the_first_behind_it() -> None:
    one = watch(step=20)
    assert [number for number in (18, 19, 20) if one.step(number)] == [20]
    assert watch(step=20).step(25)  # whoever has restored may never begin step 20
    assert not one.operation("all_reduce")


def test_the_nth_operation_of_the_process() -> None:
    one = watch(op="all_reduce", count=3)
    assert [one.operation(name) for name in ("all_reduce", "barrier", "all_reduce", "all_reduce", "all_reduce")] == [
        False, False, False, True, False,
    ]  # fmt: skip


def test_the_nth_operation_of_a_step() -> None:
    one = watch(step=2, op="any", count=2)
    assert not one.step(1)
    assert not any(one.operation("all_reduce") for _ in range(5))
    assert not one.step(2)
    assert [one.operation("barrier") for _ in range(3)] == [False, True, False]


def test_a_point() -> None:
    one = watch(point="voted", step=3)
    assert not one.point("voted")
    one.step(3)
    assert not one.point("reduced")
    assert one.point("voted")
    one.is_over = True
    one.step(4)
    assert not one.point("voted")
