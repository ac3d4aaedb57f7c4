"""Dumps that torch itself writes of gloo jobs: they go in as they are."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pycomms.flight_recorder._load import load
from pycomms.flight_recorder.analysis import Analysis, Verdict, analyze

_SIZE = 3
_DEADLINE_S = 100


def run_job(python: str, fault: str, folder: Path) -> Analysis:
    """Runs _gloo_job on a few processes, and analyzes what it left."""
    environment = {**os.environ, "WORLD_SIZE": str(_SIZE), "TORCH_FR_BUFFER_SIZE": "200", "OMP_NUM_THREADS": "1"}
    command = [python, "-m", "tests.flight_recorder._gloo_job", fault, str(folder)]
    processes = [
        subprocess.Popen(command, env={**environment, "RANK": str(rank)}, cwd=Path(__file__).parents[2])
        for rank in range(_SIZE)
    ]
    try:
        for process in processes:
            process.wait(_DEADLINE_S)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    dumps = sorted(folder.glob("gloo_rank*"))
    assert len(dumps) == _SIZE - (fault == "killed")
    loaded = load(dumps)
    assert len(loaded.records) == len(dumps)
    for path in dumps:
        os.utime(path, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns + 5_000_000_000))
    return analyze(load(dumps).records)


def test_healthy(warm_python: str, tmp_path: Path) -> None:
    assert run_job(warm_python, "healthy", tmp_path).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("fault, verdict", [("missing", Verdict.MISSING_RANK), ("mismatch", Verdict.OP_MISMATCH)])
def test_the_last_rank_is_to_blame(warm_python: str, fault: str, verdict: Verdict, tmp_path: Path) -> None:
    analysis = run_job(warm_python, fault, tmp_path)
    assert (analysis.verdict, analysis.root_ranks) == (verdict, (_SIZE - 1,))
    finding = analysis.findings[0]
    assert finding.op is not None
    assert finding.op.sequence == 7
    assert finding.group is not None
    assert finding.group.ranks == tuple(range(_SIZE))
    assert {Path(place.site.file).name for place in finding.victim_sites} == {"_gloo_job.py"}


def test_killed(warm_python: str, tmp_path: Path) -> None:
    """gloo ends the operation with an error, and records that as any other end: that nobody can tell is said."""
    analysis = run_job(warm_python, "killed", tmp_path)
    assert analysis.verdict is Verdict.INSUFFICIENT_DATA
    assert f"of rank {_SIZE - 1} there is no record" in analysis.findings[0].what
    assert analysis.degraded
