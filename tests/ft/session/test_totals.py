"""What a program adds to the training's state moves on where a step is committed, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ._job import Job
from ._totals import Plan, count

pytestmark = pytest.mark.needs_torch("2.14", "elastic sessions")


def sum_to(step: int) -> int:
    return step * (step + 1) // 2


@pytest.mark.parametrize("doubts", [None, (0, 5)])
def test_survivors_and_newcomers_have_the_same_total(doubts: tuple[int, int] | None) -> None:
    plan = Plan(until=9, dies=("m2", 3), doubts=doubts, holds=7)
    with Job(count, plan, slots=3) as job:
        job.run_until(job.has_heard("holding", 2))
        job.start(1)
        job.run()
    assert job.heard("total") == [(sum_to(9), 9)] * 3


def test_a_checkpoint_has_the_total_of_its_step(tmp_path: Path) -> None:
    for until in (6, 9):
        with Job(count, Plan(until=until, folder=tmp_path), slots=2) as job:
            job.run()
        assert job.heard("total") == [(sum_to(until), until)] * 2
