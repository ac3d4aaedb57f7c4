"""A job, a plan, a judgement: from end to end."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from pycomms.chaos._command import main

from ._runs import chaos, elastic, plain, run

KILL = """
ranks = 3
[[fault]]
kind = "kill"
rank = 1
at = { step = 12 }
"""
MANY = """
ranks = 4

[[fault]]
kind = "slow"
rank = 3
for = 0.2
at = { step = 3 }

[[fault]]
kind = "kill"
process = "coordinator"
at = { step = 6, rank = 0 }

[[fault]]
kind = "exception"
rank = 1
at = { step = 12, op = "all_reduce", moment = "after" }

[[fault]]
kind = "kill"
rank = 2
at = { point = "standing", step = 12 }

[[fault]]
kind = "segfault"
rank = 1
at = { point = "fetching", start = 2 }
"""


@pytest.mark.needs_torch("2.14", "elastic sessions")
def test_a_session_gets_over_all_of_these(tmp_path: Path, warm_python: str) -> None:
    ran = run(tmp_path, MANY, elastic(warm_python, "--steps", "300", ranks=4))
    assert ran.code == 0
    assert ran.out.startswith("PASSED: plan, seed 0: all that was checked has held")
    report = ran.report
    others = [one for one in report["invariants"] if one["name"] != "growth"]  # which takes longer than such a job
    assert {one["state"] for one in others} == {"held"}
    assert [(one["fault"], one["rank"]) for one in report["faults"]] == [(0, 3), (1, -1), (2, 1), (3, 2), (4, 1)]
    assert report["faults"][2]["where"] == "after all_reduce"
    assert ran.said("explained").startswith("3 faults, each with its culprit named")
    told = json.loads((ran.folder / "run.json").read_text())
    assert told["command"][-1] == "300"
    assert len(told["plan"]["fault"]) == 5
    assert {path.name for path in ran.folder.glob("report.*")} == {"report.json", "report.xml", "report.html"}


@pytest.mark.needs_torch("2.14", "hooks around operations")
def test_a_job_of_torchrun_and_gloo_does_not(tmp_path: Path, warm_python: str) -> None:
    flip = """
    [[fault]]
    kind = "bitflip"
    side = "output"
    rank = 2
    at = { step = 5, op = "all_reduce" }
    """
    ran = run(tmp_path, KILL + flip, plain(warm_python, "--steps", "40", "--timeout", "5"))
    assert ran.code == 1
    assert set(ran.report["violated"]) == {"outcome", "recovery", "values", "agreement"}
    assert "step 5 on rank 2: 1 of 4096 elements are wrong, for a sum over slots [0, 1, 2]" in ran.said("values")
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--seed", "-5"], "argument --seed: given '-5', expected a whole number, 0 or more"),
        (["--duration", "nan"], "argument --duration: given 'nan', expected a number above 0"),
        (["--duration", "inf"], "argument --duration: given 'inf', expected a number above 0"),
        (["--duration", "-1"], "argument --duration: given '-1', expected a number above 0"),
        (["--ranks", "1000000000"], "ranks: given 1000000000, expected 65536 at most"),
        (["plan.toml", "--faults", "kill,nope"], "faults: given 'nope', expected of kill,"),
        (["plan.toml", "python"], "unrecognized arguments: python; the job's command stands behind --"),
        (["binary.toml"], "binary.toml: given a file that is no text (invalid start byte), expected TOML"),
    ],
)
def test_options_that_make_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text(KILL)
    (tmp_path / "binary.toml").write_bytes(b"\xb4\x00")
    assert main(["run", *options, "--out", "run", "--", "true"]) == 4
    assert said in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_what_there_is_is_listed(tmp_path: Path) -> None:
    assert "all_reduce" in chaos(tmp_path, "list").out
    listed = json.loads(chaos(tmp_path, "list", "--json").out)
    assert listed["faults"]["kill"]["settings"]["signal"]["default"] == "SIGKILL"


def test_the_end_of_the_terminal_ends_the_job(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup children would inherit that it is ignored
    try:
        ran = run(tmp_path, "duration = 60\n", ["sh", "-c", "kill -HUP $PPID; exec sleep 60"])
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ran.code == 2
    assert "UNDECIDED: plan, seed 0: the run was interrupted" in ran.out
    assert ran.state("hygiene") == "held"
