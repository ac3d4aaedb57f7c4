"""The examples as a user starts them: torchrun, and ranks in processes of their own. Most are warm (tests/warm)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pycomms import _C

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_SECONDS = 110


def torchrun(python: str, ranks: int, script: str, *arguments: str) -> str:
    """Standard output of the run; its standard error is shown when it fails."""
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    done = subprocess.run(
        [*command, str(EXAMPLES / script), *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": python},
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture
def backend(pytestconfig: pytest.Config) -> str:
    return str(pytestconfig.getoption("--backend"))


def test_train_ddp_learns(backend: str) -> None:
    summary: dict[str, Any] = json.loads(
        torchrun(sys.executable, 2, "train_ddp.py", "--backend", backend, "--measure", "--json")
    )
    assert summary["test_accuracy"] >= summary["target_accuracy"]
    assert summary["in_collectives"]["calls"] == summary["steps"]


@pytest.mark.nccl2_only("compares nccl2 with gloo")
@pytest.mark.timeout(330)
def test_the_demo() -> None:
    command = [sys.executable, str(EXAMPLES / "demo.py"), "--ranks", "3", "--steps", "500", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * LIMIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    ours, gloo = found["comparison"]["ours"], found["comparison"]["gloo"]
    assert len(ours["losses"]) == ours["steps"] > 100
    assert ours["losses"] == pytest.approx(gloo["losses"], rel=0, abs=1e-6)
    if _C.can_regroup:
        assert found["loss"]["recoveries"][0]["world"] == 2
        assert found["loss"]["died"] == [2]


@pytest.mark.parametrize("ranks", [1, 3])
def test_train_fsdp2(warm_python: str, backend: str, ranks: int) -> None:
    assert f"{backend}, {ranks} ranks: the sharded weights equal" in torchrun(
        warm_python, ranks, "train_fsdp2.py", "--backend", backend
    )


@pytest.mark.parametrize("ranks", [3, 4])
def test_dtensor(warm_python: str, backend: str, ranks: int) -> None:
    assert "all results are right" in torchrun(warm_python, ranks, "dtensor.py", "--backend", backend)


@pytest.mark.needs_torch("2.14", "groups that change their size")
@pytest.mark.nccl2_only("gloo does not notice the death before its timeout")
@pytest.mark.timeout(330)  # --long
def test_survive(long: bool) -> None:
    """With `--long` also where one survivor is alone, and where there are three."""
    for ranks in (2, 3, 4) if long else (3,):
        command = [sys.executable, str(EXAMPLES / "survive.py"), "--ranks", str(ranks), "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        result = json.loads(done.stdout)
        assert [(event["what"], event["size"]) for event in result["events"]] == [
            ("rank 1 was killed", ranks - 1),
            ("a newcomer joined", ranks),
        ]
        assert len(set(result["losses"])) == ranks


@pytest.mark.nccl2_only("is about gloo")
@pytest.mark.needs_torch("2.14", "hooks around operations")
def test_find_a_hang() -> None:
    command = [sys.executable, str(EXAMPLES / "find_a_hang.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "MISSING_RANK root ranks [2] group default_pg seq 6 all_reduce" in done.stdout


@pytest.mark.nccl2_only("gloo has no windows")
@pytest.mark.parametrize(
    "example, ranks, says",
    [
        ("rma_halo.py", 1, "1 x 1 ranks, 24 x 24 cells, 200 steps: as one process computes it"),
        ("rma_halo.py", 4, "2 x 2 ranks, 48 x 48 cells, 200 steps: as one process computes it"),
        ("rma_hash_table.py", 3, "60000 words"),
        ("rma_work_queue.py", 3, "17984 primes below 200000"),
        ("rma_parameter_server.py", 3, "600 updates by 2 workers"),
        ("rma_checkpoint_pull.py", 3, "of 200, to the bit"),
    ],
)
def test_windows(warm_python: str, example: str, ranks: int, says: str) -> None:
    assert says in torchrun(warm_python, ranks, example)
