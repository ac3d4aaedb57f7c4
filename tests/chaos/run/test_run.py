"""A job, a plan, a judgement: from end to end."""

from __future__ import annotations

import json
from pathlib import Path

from ._runs import chaos, elastic, plain, run

KILL = """
ranks = 3
[[fault]]
kind = "kill"
rank = 1
at = { step = 12 }
"""


def test_a_session_gets_over_a_kill(tmp_path: Path, warm_python: str) -> None:
    ran = run(tmp_path, KILL, elastic(warm_python, "--steps", "40"))
    assert ran.code == 0
    assert ran.out.startswith("PASSED: plan, seed 0: all that was checked has held")
    report = ran.report
    assert {one["state"] for one in report["invariants"]} == {"held"}
    (fault,) = report["faults"]
    assert (fault["rank"], fault["where"]) == (1, "step 12")
    assert fault["recovery"] < 5
    assert "rank 1 (slot 1) ended: signal 9 (SIGKILL)" in ran.said("explained")
    told = json.loads((ran.folder / "run.json").read_text())
    assert told["command"][-1] == "40"
    assert told["plan"]["fault"][0]["kind"] == "kill"


def test_a_job_of_torchrun_and_gloo_does_not(tmp_path: Path, warm_python: str) -> None:
    ran = run(tmp_path, KILL, plain(warm_python, "--steps", "40", "--timeout", "5"))
    assert ran.code == 1
    assert set(ran.report["violated"]) == {"outcome", "recovery"}
    assert ran.state("values") == "held"
    assert "exit code 1, but the plan expects that the job completes" in ran.said("outcome")
    assert "flight recorder: RANK_DIED of rank 1" in ran.said("explained")
    assert "FAIL outcome" in ran.out


def test_a_command_that_cannot_be_started(tmp_path: Path) -> None:
    ran = run(tmp_path, KILL, ["/no/such/program"])
    assert ran.code == 3
    assert "/no/such/program: No such file or directory" in ran.err


def test_wrong_usage(tmp_path: Path) -> None:
    ran = run(tmp_path, KILL.replace('"kill"', '"kil"'), ["true"])
    assert ran.code == 4
    assert "plan.toml: fault[0].kind: given 'kil', expected one of kill," in ran.err
    assert chaos(tmp_path, "run", "plan.toml").code == 4
    assert chaos(tmp_path, "run", "absent.toml", "--", "true").code == 4
    assert chaos(tmp_path, "frobnicate").code == 4


def test_what_there_is_is_listed(tmp_path: Path) -> None:
    assert "all_reduce" in chaos(tmp_path, "list").out
    listed = json.loads(chaos(tmp_path, "list", "--json").out)
    assert listed["faults"]["kill"]["settings"]["signal"]["default"] == "SIGKILL"
