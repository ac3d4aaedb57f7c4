"""Fault upon fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from ._runs import chaos, elastic


@pytest.mark.needs_torch("2.14", "elastic sessions")
def test_a_job_that_is_disturbed_again_and_again(tmp_path: Path, warm_python: str) -> None:
    command = elastic(warm_python, "--steps", "500", "--pause", "0.02")
    options = ("--minutes", "0.1", "--every", "2", "--ranks", "3", "--faults", "kill,slow,freeze", "--seed", "2")
    ran = chaos(tmp_path, "soak", *options, "--out", "run", "--quiet", "--", *command)
    assert ran.code == 0
    assert len(ran.report["faults"]) >= 2
    assert ran.report["figures"]["recoveries"] == len(ran.report["faults"])
    assert ran.state("growth") == "held"
    assert {name.partition(" (")[0] for name in ran.report["figures"]["memory"]} >= {"agent", "rank 0"}


def test_a_soak_needs_a_command_and_time(tmp_path: Path) -> None:
    assert chaos(tmp_path, "soak").code == 4
    done = chaos(tmp_path, "soak", "--every", "0", "--", "true")
    assert done.code == 4
    assert "--every: given '0', expected a number above 0" in done.err
