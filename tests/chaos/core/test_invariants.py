"""Each invariant sees what it should: a log in which all is right, spoilt in one place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pycomms.chaos.core.finding import State
from pycomms.chaos.core.invariants import Result, judge
from pycomms.chaos.core.log import Log

from ._logs import KILL, Job


def why(log: Log, invariant: str) -> str:
    finding = next(one for one in judge(log).findings if one.invariant == invariant)
    return "\n".join([finding.what, *finding.details])


def test_a_job_that_gets_over_it_passes() -> None:
    judgement = judge(Job().log())
    assert (judgement.result, judgement.violated) == (Result.PASSED, ())
    assert all(one.state is State.HELD for one in judgement.findings)


def test_who_joins_late_at_the_start_is_no_false_alarm() -> None:
    job = Job()
    job.say(1.7, 0, 0, "point", point="settled", members=[0, 1, 2], reason="slot 1 joined; slot 2 joined", step=1)
    assert judge(job.log()).result is Result.PASSED


def wrong_element(job: Job) -> None:
    job.find("values", step=2, rank=1).update(wrong=1)


def wrong_total(job: Job) -> None:
    job.find("values", step=2, rank=1)["total"] += 1


def not_finite(job: Job) -> None:
    job.find("values", step=2, rank=1).update(head=None, total=None, wrong=3)


def contributed_twice(job: Job) -> None:
    job.find("values", step=2, rank=0)["head"] += 4


def dead_member_in_sum(job: Job) -> None:
    job.find("values", step=3, rank=0)["head"] += 4


def other_state(job: Job) -> None:
    job.find("values", step=6, rank=1)["digest"] += 1


def step_left_out(job: Job) -> None:
    job.events = [one for one in job.events if not (one["kind"] == "values" and one["step"] == 4)]


def step_taken_again(job: Job) -> None:
    again = dict(job.find("values", step=2, rank=0), t=4.8, pid=999)
    job.events.append(again)


def sample_used_twice(job: Job) -> None:
    job.find("values", step=4, rank=2).update(samples=[16, 17])


def sample_left_out(job: Job) -> None:
    job.find("values", step=4, rank=2).update(samples=[20, 21])


def late(job: Job) -> None:
    job.plan["expect"] = {"recovery": 0.2}


def never(job: Job) -> None:
    job.events = [one for one in job.events if not (one["t"] > 3.2 and one["kind"] in ("values", "point"))]


def nobody_knows(job: Job) -> None:
    for one in job.events:
        if "signal 9" in one.get("reason", ""):
            one["reason"] = "members have changed"


def healthy_one_dies(job: Job) -> None:
    job.say(4.2, 2, 0, "gone")
    job.events.remove(job.find("gone", rank=2, t=7.1))
    job.events.remove(job.find("point", rank=2, point="done"))


def recovered_from_nothing(job: Job) -> None:
    job.say(2.2, 0, 0, "point", point="settled", members=[0, 2], reason="timeout", step=2)


def nobody_comes_back(job: Job) -> None:
    job.events = [one for one in job.events if not (one.get("pid") == 111 or one.get("reason") == "slot 1 joined")]
    for one in job.events:
        one["t"] += 20 * (one["t"] > 6.9)


def descriptors_leak(job: Job) -> None:
    for number, one in enumerate(one for one in job.events if one["kind"] == "gauge" and one["rank"] == 2):
        one["descriptors"] += number


def memory_leaks(job: Job) -> None:
    for number, one in enumerate(one for one in job.events if one["kind"] == "gauge" and one["rank"] == 0):
        one["memory"] += number * (10 << 20)


def process_left(job: Job) -> None:
    job.find("left").update(processes=["77 (python)"])


def memory_left(job: Job) -> None:
    job.find("left").update(shared_memory=["x.101"])


def port_left(job: Job) -> None:
    job.find("left").update(ports=[29500])


def no_end(job: Job) -> None:
    job.find("end").update(how="deadline", code=None)


def fails(job: Job) -> None:
    job.find("end").update(code=1)


@pytest.mark.parametrize(
    "spoil, invariant, said",
    [
        (wrong_element, "values", "step 2 on rank 1: 1 of 8 elements are wrong"),
        (wrong_total, "values", "for a sum over slots [0, 1, 2]"),
        (not_finite, "values", "3 of 8 elements are not finite"),
        (contributed_twice, "values", "one contribution of each"),
        (dead_member_in_sum, "values", "slots [0, 1, 2] are in the sum, but the members are [0, 2]"),
        (other_state, "agreement", "step 6: rank 0 has digest"),
        (step_left_out, "steps", "nobody has taken the steps [4]"),
        (step_taken_again, "steps", "rank 0 has taken step 2 after another had taken step 3"),
        (sample_used_twice, "samples", "two ranks have used the same"),
        (sample_left_out, "samples", "step 4: used 4 samples from 16 to 21"),
        (late, "recovery", "the next step came after 1.50 s, expected 0.2 s at most"),
        (never, "recovery", "no step was taken after it"),
        (nobody_knows, "explained", "nobody has named rank 1"),
        (healthy_one_dies, "no-false-alarm", "rank 2 (pid 102) has ended 4.20 s after the start"),
        (recovered_from_nothing, "no-false-alarm", "rank 0 has recovered before any fault: timeout"),
        (
            descriptors_leak,
            "growth",
            "rank 2 (pid 102) had 47 descriptors at most until 4 s, and 56 descriptors",
        ),
        (nobody_comes_back, "strength", "2 of 3 members at the end, 23.9 s after one was lost"),
        (memory_leaks, "growth", "rank 0 (pid 100) had 270 MiB at most until 4 s, and 360 MiB at least from 6 s on"),
        (process_left, "hygiene", "process 77 (python) was still there"),
        (memory_left, "hygiene", "/dev/shm/x.101 is left"),
        (port_left, "hygiene", "somebody still listens at TCP port 29500"),
        (no_end, "ends", "did not end within 120 s"),
        (fails, "outcome", "exit code 1, but the plan expects that the job completes"),
    ],
)
def test_what_is_wrong_is_seen(spoil: Callable[[Job], None], invariant: str, said: str) -> None:
    job = Job()
    spoil(job)
    judgement = judge(job.log())
    assert judgement.result is Result.FAILED
    assert invariant in judgement.violated
    assert said in why(job.log(), invariant)


def test_a_fault_that_did_not_happen_proves_nothing() -> None:
    job = Job({"ranks": 3, "fault": [KILL, {"kind": "hang", "rank": 2, "at": {"step": 900}}]})
    judgement = judge(job.log())
    assert (judgement.result, judgement.violated) == (Result.UNDECIDED, ("injected",))
    assert "hang rank 2 at step 900: has not happened to ranks [2]" in why(job.log(), "injected")


def test_an_interrupted_run_proves_nothing() -> None:
    job = Job()
    job.find("end").update(how="interrupted", code=None)
    assert judge(job.log()).result is Result.UNDECIDED


def test_a_plan_may_expect_a_violation() -> None:
    job = Job()
    job.plan["expect"] = {"violations": ["values"]}
    assert judge(job.log()).result is Result.FAILED  # it held
    wrong_element(job)
    assert judge(job.log()).result is Result.PASSED
    process_left(job)
    assert judge(job.log()).result is Result.FAILED  # nobody has asked for that one


def test_the_flight_recorder_may_name_the_culprit() -> None:
    job = Job()
    nobody_knows(job)
    told = {"verdict": "RANK_DIED", "root_ranks": [1]}
    assert "flight recorder: RANK_DIED of rank 1" in why(job.log(told), "explained")
    assert "explained" in judge(job.log({"verdict": "RANK_DIED", "root_ranks": [2]})).violated


def test_a_job_without_values_is_checked_for_what_is_known() -> None:
    job = Job()
    job.events = [one for one in job.events if one["kind"] != "values"]
    for step in range(1, 7):
        for rank in (0, 2):
            job.say(step + 0.5, rank, 0, "point", point="committed", committed=step, step=step + 1)
    judgement = judge(job.log())
    assert judgement.result is Result.PASSED
    unchecked = {one.invariant for one in judgement.findings if one.state is State.UNCHECKED}
    assert unchecked == {"values", "agreement", "samples"}


def plain_job(*, restarts: bool) -> Job:
    """Of a program that says its steps and nothing else, as any with an optimizer does: it is late once at step 3."""
    job = Job({"ranks": 3, "fault": [{"kind": "slow", "rank": 1, "at": {"step": 3}}]})
    job.events = []
    for start in range(1 + restarts):
        for rank in range(3):
            job.say(10.0 * start, rank, start, "worker", world=3)
            for step in range(1, 7):
                job.say(10.0 * start + step, rank, start, "step", step=step)
            job.say(10.0 * start + 7.0 + 0.1 * rank, rank, start, "gone")
    job.say(3.0, 1, 0, "fault", fault=0, what="slow", where="step 3")
    job.say(4.0, 1, 0, "over", fault=0)
    job.add(30.0, "end", how="exited", code=0)
    job.add(30.1, "left", processes=[], shared_memory=[])
    return job


def test_a_program_that_does_not_say_when_it_is_done_may_end() -> None:
    assert judge(plain_job(restarts=False).log()).result is Result.PASSED
    assert "rank 0 (pid 100) has ended 7.00 s" in why(plain_job(restarts=True).log(), "no-false-alarm")
