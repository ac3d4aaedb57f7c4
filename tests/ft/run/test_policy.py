"""What follows from the end of one worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pycomms.ft.core.launch import JobState
from pycomms.ft.core.messages import ALL_DONE
from pycomms.ft.run.policy import Again, Decision, Done, End, Fail, Limits, Respawn, Vacant, after, pause
from pycomms.ft.run.process import Ending

KILLED = Ending(code=137, signal=9)
LIMITS = Limits(max_restarts=3, min_ranks=None)


def end(ending: Ending = KILLED, **what: Any) -> End:
    usual: dict[str, Any] = {"rank": 1, "announced": True, "left": False, "refused": "", "restarts": 0, "failures": 0}
    return End(ending=ending, **{**usual, **what})


def job(**what: Any) -> JobState:
    return JobState(name="job", **{"sessions": True, "training": True, **what})


@pytest.mark.parametrize(
    "ended, state, limits, kind",
    [
        (end(Ending(code=0)), job(), LIMITS, Done),
        (end(), job(), LIMITS, Respawn),
        (end(announced=False), job(), LIMITS, Respawn),  # others have: it has died on its way
        (end(announced=False), job(sessions=False), LIMITS, Again),
        (end(announced=True), job(sessions=False), LIMITS, Respawn),  # the others' news has not come yet
        (end(restarts=3), job(), LIMITS, Fail),
        (end(restarts=3), job(), Limits(max_restarts=3, min_ranks=2), Vacant),
        (end(restarts=3), job(), Limits(max_restarts=3, min_ranks=3), Fail),
        (end(refused="too few"), job(), LIMITS, Again),
        (end(refused="others are done"), job(finished=True), LIMITS, Done),
        (end(refused=ALL_DONE), job(), LIMITS, Done),  # the others do what comes behind the training
        (end(refused=ALL_DONE, restarts=1, failures=2), job(), LIMITS, Done),
        (end(refused=ALL_DONE), job(training=False), LIMITS, Respawn),  # it had trained: nothing is known of the others
        (end(refused=ALL_DONE, restarts=1, failures=1), job(training=False), LIMITS, Again),  # none of them ends with 0
        (end(refused=ALL_DONE), job(finished=True), LIMITS, Done),
        (end(refused=ALL_DONE, restarts=3), job(training=False), LIMITS, Again),
        (end(Ending(code=1), left=True), job(), LIMITS, Fail),
        (end(Ending(code=1), left=True), job(finished=True, training=False), LIMITS, Fail),
        (end(left=True), job(finished=True, training=False), LIMITS, Done),
        (end(Ending(code=0), left=True), job(), LIMITS, Done),
        (end(), job(finished=True, training=False), LIMITS, Done),
        (end(), job(finished=True, training=True), LIMITS, Respawn),
    ],
)
def test_decisions(ended: End, state: JobState, limits: Limits, kind: type[Decision]) -> None:
    assert isinstance(after(ended, state, limits, others=2), kind)


def test_pauses() -> None:
    assert [pause(failures).total_seconds() for failures in range(10)] == [0, 0, 0.25, 0.5, 1, 2, 4, 8, 10, 10]
    assert pause(10**6) == timedelta(seconds=10)


@pytest.mark.parametrize(
    "ending, words",
    [
        (Ending(code=3), "exit code 3"),
        (KILLED, "signal 9 (SIGKILL)"),
        (Ending(code=139, signal=11, dumped=True), "signal 11 (SIGSEGV), core dumped"),
    ],
)
def test_words(ending: Ending, words: str) -> None:
    assert str(ending) == words
