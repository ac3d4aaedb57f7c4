"""What the benchmark of fault-tolerant training concludes from the log of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.ft.__main__ import parse_arguments
from bench.ft.log import Kill, Line, Log, Trial, gap, judge, together, went_on
from bench.ft.report import figure, render

KILL = Kill(at=10.0, slot=2, pids={0: 100, 1: 101, 2: 102})


def step(at: float, slot: int, number: int, world: int, *, pid: int = 0, committed: bool = True) -> Line:
    return Line(at, slot, pid or 100 + slot, "step", (number, int(committed), world))


BEFORE = [step(9.9 + slot / 100, slot, 7, 3) for slot in range(3)]
SURVIVORS = [step(10.05, 0, 8, 3, committed=False), step(10.1, 0, 8, 2), step(10.2, 1, 8, 2), step(10.3, 0, 9, 2)]
NEWCOMER = [Line(11.0, 2, 202, "joining"), Line(11.1, 2, 202, "restored")]
TOGETHER = [step(11.5, 0, 10, 3), step(11.6, 2, 10, 3, pid=202), step(11.7, 1, 10, 3)]


def test_a_job_goes_on_when_the_last_survivor_has_committed_without_the_dead_one() -> None:
    assert went_on([*BEFORE, *SURVIVORS[:2]], KILL) is None
    assert went_on([*BEFORE, *SURVIVORS], KILL) == 10.2


def test_a_step_that_the_dead_one_has_had_a_part_in_does_not_count() -> None:
    assert went_on([*BEFORE, step(10.01, 0, 8, 3), step(10.01, 1, 8, 3)], KILL) is None


def test_a_job_that_is_restarted_as_a_whole_goes_on_when_all_have_committed() -> None:
    restarted = [step(15.0 + slot, slot, 8, 3, pid=200 + slot) for slot in range(3)]
    assert went_on([*BEFORE, *restarted[:2]], KILL) is None
    assert went_on([*BEFORE, *restarted], KILL) == 17.0


def test_together_again_when_all_have_committed_a_step_with_the_newcomer() -> None:
    assert together([*BEFORE, *SURVIVORS, *NEWCOMER, *TOGETHER[:2]], KILL) == {}
    assert together([*BEFORE, *SURVIVORS, *NEWCOMER, *TOGETHER], KILL) == {0: 11.5, 1: 11.7, 2: 11.6}


def test_the_gap_is_the_longest_between_two_commits_of_a_survivor() -> None:
    assert gap([*SURVIVORS, *TOGETHER], KILL, 11.5, 11.7) == pytest.approx(1.5)


def test_a_trial_of_a_job_that_survives() -> None:
    trial = judge("ours", [*BEFORE, *SURVIVORS, *NEWCOMER, *TOGETHER], KILL)
    assert trial is not None
    assert trial.to_next_step == pytest.approx(0.2)
    assert trial.to_full_strength == pytest.approx(1.7)
    assert trial.to_rejoin == pytest.approx(0.7)
    assert (trial.lost, trial.restored, trial.died) == (1, 0, 0)


def test_a_trial_of_a_job_that_is_rolled_back_and_restarted() -> None:
    lines = [*BEFORE, *(Line(14.0, slot, 200 + slot, "joining") for slot in range(3))]
    lines += [Line(14.1, slot, 200 + slot, "restored") for slot in range(3)]
    lines += [step(15.0, slot, 6, 3, pid=200 + slot) for slot in range(3)]
    trial = judge("torchrun", lines, KILL)
    assert trial is not None
    assert (trial.lost, trial.restored, trial.died) == (2, 2, 2)


def test_a_survivor_that_is_silent_for_longer_than_the_newcomer_has_not_died() -> None:
    lines = [*BEFORE, *SURVIVORS, *NEWCOMER, *TOGETHER]
    trial = judge("ours", sorted(lines, key=lambda line: line.at), KILL)
    assert trial is not None
    assert trial.died == 0


def test_the_log_is_read_in_whole_lines_and_forgets(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("9000000000 0 100 step 7 1 3\n11000000000 2 202 joi")
    log = Log(path)
    log.update()
    assert log.lines == [Line(9.0, 0, 100, "step", (7, 1, 3))]
    with path.open("a") as file:
        file.write("ning\n")
    log.update()
    assert log.pids() == {0: 100, 2: 202}
    log.forget(KILL)
    assert log.lines == [Line(11.0, 2, 202, "joining")]


def test_figures() -> None:
    assert figure([0.001 * one for one in range(1, 102)]) == "51.0 / 100 / 101"
    assert figure([]) == "-"


def test_the_report_has_a_table_per_setup_and_the_failures() -> None:
    given = {"workers": 4, "step_ms": 10.0, "compute": "burn", "megabytes": 1.0}
    trials = [Trial(contestant="torchft", to_next_step=5.0), Trial(contestant="torchft", failure="gone")]
    document = {"arguments": given, "trials": [vars(trial) for trial in trials]}
    text = "\n".join(render([document, {**document, "arguments": {**given, "compute": "wait"}}]))
    assert text.count("1 of 2") == 2
    assert "5,000 / 5,000 / 5,000" in text
    assert "(wait)" in text
    assert "failed: torchft: gone" in text


def test_arguments() -> None:
    assert parse_arguments(["--contestants", "pycomms,torchrun"]).contestants == ("pycomms", "torchrun")
    with pytest.raises(SystemExit):
        parse_arguments(["--contestants", "pytorch"])
