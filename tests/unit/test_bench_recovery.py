"""What the recovery benchmark concludes from its trials, and how it says it."""

from __future__ import annotations

import pytest

from bench.recovery.__main__ import parse_arguments
from bench.recovery.report import render
from bench.recovery.trials import Section, Setup, Stage, Trial, stages_between, summarize


def trial(number: int, *stages_ms: float, failure: str = "", section: Section = Section.KILL) -> Trial:
    setup = Setup(section=section, contestant="gloo", ranks=4, resident=0)
    return Trial(setup=setup, number=number, stages_ms=dict(zip(Stage, stages_ms, strict=False)), failure=failure)


def test_stages_follow_each_other_and_add_up() -> None:
    stages = stages_between(Section.KILL, [1_000_000, 3_000_000, 3_500_000, 3_250_000, 9_000_000])
    assert stages == {Stage.NOTICED: 2.0, Stage.COORDINATED: 0.5, Stage.REGROUPED: 0.0, Stage.VERIFIED: 5.5}
    assert sum(stages.values()) == 8.0


def test_every_stage_has_an_end() -> None:
    with pytest.raises(ValueError, match="zip"):
        stages_between(Section.JOIN, [0, 1, 2])


def test_figures_are_of_the_trials_that_did_not_fail() -> None:
    trials = [trial(0, 1, 1, 1, 1), trial(1, 2, 2, 2, 2), trial(2, 9, 0, 0, 0), trial(3, failure="gone")]
    (row,) = summarize(trials)
    assert (row.trials, row.failed) == (4, 1)
    assert (row.stages[Stage.NOTICED].median_ms, row.stages[Stage.NOTICED].worst_ms) == (2, 9)
    assert row.total is not None
    assert (row.total.median_ms, row.total.worst_ms) == (8, 9)


def test_a_setup_that_always_failed_has_no_figures() -> None:
    (row,) = summarize([trial(0, failure="gone")])
    assert (row.failed, row.stages, row.total) == (1, {}, None)


def test_trials_survive_json() -> None:
    for one in [trial(0, 1, 2, 3, 4), trial(1, failure="gone", section=Section.JOIN)]:
        assert Trial.from_json(one.to_json()) == one


def test_the_report_has_a_table_per_section_and_the_failures() -> None:
    document = {"trials": [one.to_json() for one in [trial(0, 3000.0, 1, 2, 3), trial(1, failure="gone")]]}
    text = "\n".join(render(document))
    assert "killed" in text
    assert "joins" not in text
    assert "1 of 2" in text
    assert "3,000 / 3,000" in text
    assert "failed: gloo: gone" in text


def test_arguments() -> None:
    args = parse_arguments(["--resident", "2GiB", "--ranks", "2,4", "--ours", "", "--contestants", "nccl2,gloo"])
    assert (args.resident, args.ranks, args.ours, args.contestants) == (2 << 30, (2, 4), (), ("nccl2", "gloo"))
    with pytest.raises(SystemExit):
        parse_arguments(["--contestants", "mpi"])
