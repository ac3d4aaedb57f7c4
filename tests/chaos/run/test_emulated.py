"""Jobs on the emulated CUDA get over faults of GPUs and of NCCL: the plans of tests/chaos/emulated."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import cuda_emulator
from tests.cuda_emulator import nccl

from ._runs import ROOT, Ran, run_here

PLANS = sorted((ROOT / "tests" / "chaos" / "emulated" / "plans").glob("*.toml"))
_STUCK_S = 3.0
"""So long an operation may take, and then a regroup again, in the jobs that have to wait for it."""


@pytest.fixture(scope="module", autouse=True)
def _built(emulated_cuda: None) -> None:
    """Before a job has to be in time."""
    nccl.library()
    cuda_emulator.environment()  # builds as well


def go(folder: Path, plan: Path, *options: str) -> Ran:
    agent = [sys.executable, "-m", "pycomms", "run", "--nproc-per-node=3"]
    return run_here(folder, plan.read_text(), [*agent, *options, "--steps", "80"])


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.parametrize("plan", PLANS, ids=[plan.stem for plan in PLANS])
def test_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    waits = (f"--recovery-deadline={_STUCK_S}",) if "stuck" in plan.stem else ()
    ran = go(tmp_path, plan, *waits, "-m", "tests.chaos.emulated")
    assert ran.code == 0, ran.out
    assert ran.state("values") == ran.state("agreement") == ran.state("steps") == "held"


@pytest.mark.needs_torch("2.14", "elastic sessions")
def test_a_job_without_an_emulator_is_told_so(tmp_path: Path) -> None:
    plan = next(plan for plan in PLANS if plan.stem == "gpu-late")
    ran = go(tmp_path, plan, "-m", "pycomms.chaos.workload")
    assert ran.code == 2
    assert "the process runs on no emulated CUDA" in ran.said("injected")
