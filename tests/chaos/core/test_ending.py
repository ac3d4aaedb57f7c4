"""What has become of a job, in one word; and jobs that begin anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pycomms.chaos.core.ending import Ending, ending_of
from pycomms.chaos.core.invariants import Judgement, Result, judge
from pycomms.chaos.core.log import Log

from ._logs import Job


def ending(log: Log) -> Ending:
    return ending_of(log, judge(log).findings)


def begin_anew(job: Job) -> None:
    """Behind the last step all members begin from the first."""
    end, left = job.events[-2:]
    del job.events[-2:]
    again = [one for one in job.events if one["kind"] == "values" and one["step"] < 3]
    for one in again:
        job.events.append({**one, "t": one["t"] + 10.0, "pid": one["pid"] + 500})
    job.events += [{**end, "t": 20.0}, {**left, "t": 20.1}]


def wrong(job: Job) -> None:
    job.find("values", step=2, rank=1).update(wrong=1)


def hangs(job: Job) -> None:
    job.find("end").update(how="deadline", code=None)


def fails(job: Job) -> None:
    job.find("end").update(code=1)


def fails_silently(job: Job) -> None:
    fails(job)
    for one in job.events:
        if "signal 9" in one.get("reason", ""):
            one["reason"] = "members have changed"


def interrupted(job: Job) -> None:
    job.find("end").update(how="interrupted", code=None)


def wrong_and_hangs(job: Job) -> None:
    wrong(job)
    hangs(job)


@pytest.mark.parametrize(
    "spoil, expected",
    [
        (lambda job: None, Ending.GOES_ON),
        (begin_anew, Ending.BEGINS_ANEW),
        (fails, Ending.FAILS),
        (fails_silently, Ending.FAILS_SILENTLY),
        (hangs, Ending.HANGS),
        (wrong, Ending.WRONG),
        (wrong_and_hangs, Ending.WRONG),
        (interrupted, Ending.UNKNOWN),
    ],
)
def test_in_one_word(spoil: Callable[[Job], None], expected: Ending) -> None:
    job = Job()
    spoil(job)
    assert ending(job.log()) is expected


def begun_anew(outcome: str, spoil: Callable[[Job], None] = lambda job: None) -> Judgement:
    job = Job()
    job.plan["expect"] = {"outcome": outcome}
    begin_anew(job)
    spoil(job)
    return judge(job.log())


def test_a_job_that_begins_anew_loses_its_steps_and_no_more() -> None:
    judgement = begun_anew("completes")
    assert judgement.violated == ("steps",)
    steps = next(one for one in judgement.findings if one.invariant == "steps")
    assert steps.what == "at 11.50 s the job has begun anew, after step 6 had been taken"


def test_a_plan_may_expect_that_it_begins_anew() -> None:
    assert begun_anew("restarts").result is Result.PASSED
    job = Job()
    job.plan["expect"] = {"outcome": "restarts"}
    assert judge(job.log()).violated == ("outcome",)  # it did not


def test_what_is_done_anew_is_checked_too() -> None:
    def other(job: Job) -> None:
        job.events[-3]["digest"] += 1

    assert begun_anew("restarts", other).violated == ("agreement",)
