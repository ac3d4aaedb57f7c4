"""The standard plans see bugs of the recovery: each bug is planted into a copy of the package, and one plan fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from pycomms.chaos.core.parse import parse

from .planted import BUGS, Bug
from .suffering import PLANS, again, suffer

HARMLESS = [
    {"kind": kind, "rank": rank, "for": 0.02, "at": {"step": step}}
    for step, (kind, rank) in enumerate([("slow", 0), ("starve", 2), ("hang", 3), ("slow", 2), ("freeze", 0)] * 3, 3)
][:11]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_seen(bug: Bug, tmp_path: Path, warm_python: str) -> None:
    ran = suffer(tmp_path, bug, PLANS[bug.plan], warm_python)
    assert ran.code == 1
    assert set(ran.report["violated"]) & set(bug.seen_by), ran.report["violated"]


@pytest.mark.parametrize("name", sorted({bug.plan for bug in BUGS}))
def test_without_a_bug_the_plan_passes(name: str, tmp_path: Path, warm_python: str) -> None:
    assert suffer(tmp_path, None, PLANS[name], warm_python).code == 0


def test_of_twelve_faults_the_one_that_shows_the_bug_is_found(tmp_path: Path, warm_python: str) -> None:
    bug = next(bug for bug in BUGS if bug.name == "a step that failed counts as committed")
    kill = {"kind": "kill", "rank": 1, "at": {"step": 20}}
    plan = parse({"name": "twelve", "ranks": 4, "fault": [*HARMLESS[:6], kill, *HARMLESS[6:]]})
    assert len(plan.faults) == 12
    assert suffer(tmp_path, bug, plan, warm_python).code == 1
    smaller = again(tmp_path, "shrink", "run", "--budget", "90")
    assert "12 faults, 1 of them are enough" in smaller.out
    assert "kill rank 1 at step 20" in smaller.out
