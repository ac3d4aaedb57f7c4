"""Faults that the members of a job notice together: by what they call, and by their connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from ._runs import elastic, run

pytestmark = pytest.mark.needs_torch("2.14", "elastic sessions")


def test_who_leaves_an_operation_out_is_named(tmp_path: Path, warm_python: str) -> None:
    plan = """
    ranks = 3
    [expect]
    outcome = "fails"
    [[fault]]
    kind = "skip"
    rank = 1
    at = { step = 5, op = "all_reduce" }
    """
    command = elastic(warm_python, "--steps", "10")
    ran = run(tmp_path, plan, [*command[:4], "--max-restarts=0", *command[4:]])
    assert ran.code == 0
    assert "MISMATCH of rank 1" in ran.said("explained")


def test_hosts_that_lose_packets(tmp_path: Path, warm_python: str) -> None:
    plan = """
    ranks = 2
    hosts = 2
    [[fault]]
    kind = "loss"
    share = 0.2
    for = 0.5
    rank = [0, 1]
    at = { step = 5 }
    """
    ran = run(tmp_path, plan, elastic(warm_python, "--steps", "40", ranks=2))
    assert ran.code == 0
    assert len(ran.report["faults"]) == 2
