"""All timeouts follow from one, and those that are set by hand fit to the others."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pycomms.ft.core.timeouts import LONGEST, SHORTEST, derive


@pytest.mark.parametrize("deadline", [SHORTEST, timedelta(seconds=10), LONGEST])
def test_what_is_derived_is_within_the_deadline(deadline: timedelta) -> None:
    times = derive(deadline)
    assert times.gather + times.regroup + times.restore <= deadline
    assert times.host_silence.total_seconds() * 1000 < 2**31


@pytest.mark.parametrize("value", [5, 0.5, "5", None])
def test_a_timeout_by_hand_that_is_none_is_refused_by_name(value: Any) -> None:
    with pytest.raises(TypeError, match=f"the timeout beat is {value!r}, expected a timedelta"):
        derive(timedelta(seconds=10), beat=value)


@pytest.mark.parametrize(
    "by_hand, said",
    [
        ({"bet": timedelta(seconds=1)}, "no timeout is called 'bet'; there are operation, gather"),
        ({"beat": timedelta(0)}, "the timeout beat is 0.0 s, expected more than 0"),
        ({"beat": timedelta(seconds=1)}, "host_silence is 2.5 s, expected at least three beats of 1.0 s"),
        ({"restore": timedelta(seconds=6)}, "gather, regroup and restore take up to 11.0 s together"),
        ({"rejoin": timedelta(seconds=1)}, "rejoin is 1.0 s, expected at least gather, 2.5 s"),
    ],
)
def test_timeouts_that_contradict_each_other_are_refused(by_hand: dict[str, timedelta], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        derive(timedelta(seconds=10), **by_hand)
