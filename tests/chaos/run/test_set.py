"""A set of plans, run one after another: `pycomms chaos set`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ._runs import chaos

LOOP = Path(__file__).with_name("_loop.py")
PLANS = {
    "late": 'rank = 1\nkind = "slow"\nfor = 0.05\nat = { step = 3 }',
    "ends": 'rank = 1\nkind = "exit"\ncode = 5\nat = { step = 4 }',
    "votes": 'rank = 1\nkind = "kill"\nat = { point = "voted" }',
    "served": 'process = "coordinator"\nkind = "kill"\nat = { step = 3, rank = 1 }',
}


def job() -> list[str]:
    worker = f"{sys.executable} {LOOP} 10"
    return ["sh", "-c", f"RANK=0 {worker} & RANK=1 {worker}; code=$?; wait; exit $code"]


def test_all_plans_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, fault in PLANS.items():
        (folder / f"{name}.toml").write_text(f"ranks = 2\n[[fault]]\n{fault}\n")
    done = chaos(tmp_path, "set", "mine", "--out", "run", "--", *job())
    assert done.code == 1
    assert done.out.startswith("FAILED: mine: 1 passed, 1 failed, 2 not applicable")
    assert "1/4 failed" in done.err
    told = json.loads((tmp_path / "run" / "set.json").read_text())
    assert [(one["name"], one["result"], one["ending"]) for one in told["plans"]] == [
        ("ends", "failed", "fails, and names nobody"),
        ("late", "passed", "goes on"),
        ("served", "not applicable", "not applicable"),
        ("votes", "not applicable", "not applicable"),
    ]
    assert "it needs a session of pycomms.ft, which the job has not" in done.out
    assert {path.name for path in done.folder.iterdir()} >= {"index.html", "set.xml", "ends", "late"}
    assert (done.folder / "ends" / "report.html").exists()
    some = chaos(tmp_path, "set", "mine", "--only", "late", "--out", "some", "--json", "--", *job())
    assert some.code == 0
    assert json.loads(some.out)["result"] == "passed"


def test_the_standard_set_is_listed(tmp_path: Path) -> None:
    done = chaos(tmp_path, "set", "--list")
    assert done.code == 0
    assert "kill-voting: a worker is killed as it is about to vote on the step [needs a session" in done.out


def test_wrong_usage(tmp_path: Path) -> None:
    assert chaos(tmp_path, "set").code == 4
    assert "expected files *.toml" in chaos(tmp_path, "set", ".", "--", "true").err
    assert "absent: given a path where nothing is" in chaos(tmp_path, "set", "absent", "--", "true").err
    assert "--only: given 'x', expected of agent-frozen" in chaos(tmp_path, "set", "--only", "x", "--", "true").err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert chaos(tmp_path, "set", "--out", "full", "--", "true").code == 3
    assert "/no/such/program" in chaos(tmp_path, "set", "--", "/no/such/program").err
