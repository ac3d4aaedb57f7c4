"""A run is done again, and a plan with which a job fails is made smaller."""

from __future__ import annotations

import sys
from pathlib import Path

from ._runs import chaos, run

LOOP = Path(__file__).with_name("_loop.py")
PLAN = """
ranks = 2
[expect]
outcome = "completes"

[[fault]]
kind = "freeze"
rank = [0, "any"]
for = 0.01
at = { step = 3 }

[[fault]]
kind = "exit"
code = 5
rank = 1
at = { op = "all_reduce", count = 8 }

[[fault]]
kind = "slow"
rank = 0
for = 0.05
at = { step = 4 }
"""


def job() -> list[str]:
    worker = f"{sys.executable} {LOOP} 15"
    return ["sh", "-c", f"RANK=0 {worker} & RANK=1 {worker}; code=$?; wait; exit $code"]


def test_a_run_is_done_again_and_made_smaller(tmp_path: Path) -> None:
    first = run(tmp_path, PLAN, job(), "--seed", "3")
    assert first.code == 1
    assert first.report["plan"]["seed"] == 3
    again = chaos(tmp_path, "replay", "run", "--out", "again", "--quiet")
    assert again.code == 1
    assert "as before: violated: outcome" in again.out
    assert (tmp_path / "run" / "plan.toml").read_text() == (tmp_path / "again" / "plan.toml").read_text()
    smaller = chaos(tmp_path, "shrink", "run")
    assert smaller.code == 0
    assert "3 faults, 1 of them are enough" in smaller.out
    assert "exit rank 1 (code=5) before all_reduce number 8" in smaller.out
    shrunk = run(tmp_path / "run", (tmp_path / "run" / "shrink" / "shrunk.toml").read_text(), job())
    assert shrunk.code == 1


def test_other_folders_are_refused(tmp_path: Path) -> None:
    for subcommand in ("replay", "shrink", "report"):
        done = chaos(tmp_path, subcommand, ".")
        assert done.code == 3
        assert "expected one that pycomms chaos run has made" in done.err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    (tmp_path / "plan.toml").write_text(PLAN)
    assert "is not empty" in chaos(tmp_path, "run", "plan.toml", "--out", "full", "--", "true").err


def test_a_search_ends_when_it_is_interrupted(tmp_path: Path) -> None:
    """The first of its runs is interrupted by what it starts, and there is no second."""
    first = run(tmp_path, PLAN, job(), "--seed", "3")
    assert first.code == 1
    done = chaos(tmp_path, "shrink", "run", "--", "sh", "-c", "kill -INT $PPID; exec sleep 60")
    assert done.code == 2
    assert "the search was interrupted before all had been tried" in done.err
    assert "(1 runs)" in done.out
