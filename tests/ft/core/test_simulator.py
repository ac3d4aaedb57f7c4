"""Whole jobs, simulated: what the simulator checks is described in docs/ft_protocol.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pycomms.ft.core.messages import EpochId
from pycomms.ft.core.simulator import cost, schedule
from pycomms.ft.core.simulator.__main__ import main
from pycomms.ft.core.simulator.checks import Observer, ViolationError
from pycomms.ft.core.simulator.faults import Fault, Kind
from pycomms.ft.core.simulator.schedule import large, run, shrink, small


def test_small_jobs_under_any_faults(long: bool, pytestconfig: pytest.Config) -> None:
    first = pytestconfig.getoption("--seed") or 0
    ends = set()
    for seed in range(first, first + (20_000 if long else 250)):
        outcome = run(small(seed))
        again = f"python -m pycomms.ft.core.simulator --seed {seed} --seeds 1"
        assert not outcome.violation, f"{outcome.violation}\n{again}"
        ends.add(outcome.end)
    assert {"", "done"} <= ends


def test_a_large_job(long: bool) -> None:
    members, failures = (10_000, 1_000) if long else (200, 40)
    outcome = run(large(3, members, failures))
    assert not outcome.violation
    assert outcome.committed > 5
    # Of each member: a change, a membership, and a few that came again.
    assert sum(outcome.notices.values()) <= 3 * members * outcome.epochs
    beats = outcome.events.pop("Beat")
    assert beats <= outcome.simulated_seconds * members / 8 * 3
    assert sum(outcome.events.values()) <= 4 * members * outcome.epochs


def test_the_same_seed_gives_the_same_schedule() -> None:
    one, other = run(small(11)), run(small(11))
    one.seconds = other.seconds = one.quorum_seconds = other.quorum_seconds = 0.0
    assert one == other


def test_without_faults_nothing_is_given_up() -> None:
    plan = small(5)
    outcome = run(replace(plan, faults=(), settings=replace(plan.settings, steps=10)))
    assert (outcome.violation, outcome.given_up, outcome.end) == ("", 0, "done")
    assert outcome.committed == 10


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.KILL_AT])
def test_each_kind_of_fault_alone(kind: Kind) -> None:
    for seed in range(8):
        plan = small(seed)
        strike = Fault(kind=kind, at=0.8, slots=(0,), seconds=1.0)
        outcome = run(replace(plan, faults=(strike,), settings=replace(plan.settings, steps=None)))
        assert not outcome.violation, (seed, outcome.violation)


@pytest.mark.parametrize("stage", ["standing", "regrouping", "restoring", "computing", "reduced", "voted", "closing"])
def test_a_death_at_each_stage_of_a_step(stage: str) -> None:
    for count in range(1, 13):
        plan = small(count)
        strike = Fault(kind=Kind.KILL_AT, stage=stage, count=count)
        outcome = run(replace(plan, faults=(strike,), settings=replace(plan.settings, steps=6)))
        assert not outcome.violation, (count, outcome.violation)


def test_a_failing_plan_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(self: Observer, epoch: EpochId, step: int, digest: int) -> None:
        if step > 20:
            raise ViolationError("for the test")

    monkeypatch.setattr(Observer, "took", forbid)
    assert run(shrink(small(1))).violation == "ViolationError: for the test"
    assert shrink(small(1)).faults == ()


def test_a_violation_is_reported_with_the_command_that_repeats_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(plan: schedule.Schedule) -> schedule.Outcome:
        return schedule.Outcome(violation="it broke" if plan.faults else "")

    monkeypatch.setattr(schedule, "run", fail)
    monkeypatch.setattr("pycomms.ft.core.simulator.__main__.run", fail)
    assert main(["--seed", "4", "--seeds", "2"]) == 1
    said = capsys.readouterr().err
    assert "seed 4: it broke" in said
    assert "python -m pycomms.ft.core.simulator --seed 4 --seeds 1" in said


def test_the_report_counts_everything(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3"]) == 0
    assert "3 schedules" in capsys.readouterr().out
    assert main(["--seeds", "1", "--json"]) == 0
    assert '"schedules": 1' in capsys.readouterr().out


def test_the_cost_of_a_change_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    cost.main(["--members", "20", "--rounds", "3"])
    assert capsys.readouterr().out.splitlines()[1].split()[0] == "20"
