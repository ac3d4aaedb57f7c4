"""The examples that lose workers, as a user starts them; the workers have torch already (tests/warm)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs_torch("2.14", "elastic sessions")

ROOT = Path(__file__).parents[3]
LIMIT_S = 110.0


def pycomms(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pycomms", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    print(done.stdout, done.stderr)
    return done


def job(python: str, script: str, *arguments: str) -> list[str]:
    return ["run", "--nproc-per-node=4", "--no-python", python, str(ROOT / "examples" / script), *arguments]


@pytest.mark.parametrize(
    "script, kill, says",
    [
        ("elastic.py", "1@100", "300 steps, 9"),
        ("elastic_diloco.py", "1@10", "30 rounds of 20 steps, 9"),
        ("elastic_fsdp2.py", "1@100", "600 steps, loss 0.0"),
    ],
)
def test_a_worker_is_killed(warm_python: str, script: str, kill: str, says: str) -> None:
    done = pycomms(*job(warm_python, script, "--kill", kill))
    assert done.returncode == 0
    assert "rank 1 has ended with signal 9 (SIGKILL): started again" in done.stderr
    assert says in done.stdout


def test_who_comes_when_all_are_done_ends_well_and_is_not_trained(warm_python: str) -> None:
    done = pycomms(*job(warm_python, "elastic.py", "--steps", "300", "--kill", "0@300"))
    assert done.returncode == 0
    assert "rank 0 has ended with signal 9 (SIGKILL): started again" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_two_bad_moments(tmp_path: Path, warm_python: str) -> None:
    plan = ROOT / "examples" / "chaos" / "two_bad_moments.toml"
    own = ["chaos", "run", str(plan), "--quiet", "--json", "--out", str(tmp_path / "run")]
    train = job(warm_python, "elastic.py", "--steps", "1000")
    done = pycomms(*own, "--", sys.executable, "-m", "pycomms", *train)
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"] == "passed"
