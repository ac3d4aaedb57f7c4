"""What a run has cost, in numbers."""

from __future__ import annotations

import pytest

from pycomms.chaos.core.figures import figures

from ._logs import KILL, Job


def test_a_recovery_is_the_time_to_the_next_step() -> None:
    seen = figures(Job().log())
    assert seen.recoveries == 1
    assert seen.median == seen.late == seen.worst == pytest.approx(1.5)  # step 3 may have been the victim's


def test_a_hang_that_was_over_has_not_cost_the_process_that_is_killed_later() -> None:
    hang = {"kind": "hang", "rank": 2, "for": 0.1, "at": {"step": 5}}
    job = Job({"ranks": 3, "fault": [KILL, hang]}, last=10)
    job.events.remove(job.find("point", rank=2, point="done"))
    job.say(5.6, 2, 0, "fault", fault=1, what="hang", where="step 5")
    job.say(6.0, 2, 0, "step", step=6)
    job.say(8.2, 2, 0, "gone")
    job.say(8.3, 0, 0, "point", point="settled", members=[0, 1], reason="rank 2 ended", step=8)
    assert figures(job.log()).worst == pytest.approx(1.9)  # step 7, and not the first behind the death


def test_of_many_recoveries_the_late_ones_are_told() -> None:
    job = Job({"ranks": 3, "fault": [{**KILL, "kind": "slow", "rank": 0, "times": 100}]}, last=130)
    job.events = [one for one in job.events if one["kind"] != "fault"]
    for number in range(100):
        job.say(10.5 + number - (0.25 if number == 40 else 0.0), 0, 0, "fault", fault=0, what="slow", where="")
    seen = figures(job.log())
    assert seen.recoveries == 100
    assert [seen.median, seen.worst] == pytest.approx([2.0, 2.0])


def test_throughput_is_compared_with_that_of_the_same_run_without_faults() -> None:
    job = Job({"ranks": 3, "fault": [{**KILL, "at": {"seconds": 40}}]}, last=100)
    moved = {3.0: 40.0, 3.01: 40.01, 3.1: 40.1, 4.9: 46.0, 4.95: 46.1}
    for one in job.events:
        if one["kind"] in ("fault", "gone", "worker", "point"):
            one["t"] = moved.get(one["t"], one["t"])
    job.events = [one for one in job.events if not (one["kind"] == "values" and 40 < one["t"] < 43)]
    kept = figures(job.log()).kept
    assert kept is not None
    assert 0.2 < kept < 0.6  # of the five seconds behind the fault three are without a step


@pytest.mark.parametrize("t", [39.5, 40.0])  # with the last step, and behind it
def test_of_a_run_that_stops_at_its_first_fault_nothing_is_kept(t: float) -> None:
    job = Job({"ranks": 3, "fault": [{**KILL, "at": {"seconds": 40}}]}, last=39)
    job.find("fault")["t"] = t
    assert str(figures(job.log()).kept) == "0.0"  # and not -0.0


def test_a_run_without_calm_says_nothing_of_throughput() -> None:
    assert figures(Job().log()).kept is None


def test_memory_is_told_of_the_process_that_was_there_for_longest() -> None:
    job = Job()
    job.add(2.5, "gauge", pid=7, rank=-1, process="agent", memory=1 << 20, descriptors=5, threads=2)
    job.add(5.5, "gauge", pid=7, rank=-1, process="agent", memory=2 << 20, descriptors=5, threads=2)
    assert figures(job.log()).memory["agent (pid 7)"] == (1 << 20, 2 << 20)
    assert figures(job.log()).memory["rank 2 (pid 102)"] == (200 << 20, 200 << 20)
