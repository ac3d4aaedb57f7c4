"""A session whose model is on the GPU: a newcomer fetches it, and the numbers are those of a run without a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.needs_torch("2.14", "elastic sessions")

ROOT = Path(__file__).parents[2]
PATIENCE_S = 90.0
STEPS, RANKS = 40, 3


def train(*options: str) -> list[dict[str, Any]]:
    """What the ranks have printed."""
    command = [sys.executable, "-m", "pycomms", "run", f"--nproc-per-node={RANKS}", "-m", "tests.cuda.elastic"]
    done = subprocess.run(
        [*command, f"--steps={STEPS}", *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if '"weights"' in line]


@pytest.mark.usefixtures("emulated_cuda")
@pytest.mark.parametrize("options", [(), ("--ddp",)], ids=["plain", "DDP"])
def test_a_newcomer_gets_what_is_on_the_gpus_of_the_others(tmp_path: Path, options: tuple[str, ...]) -> None:
    undisturbed = train(*options)
    disturbed = train(*options, "--kill", "1@20", str(tmp_path / "killed"))
    assert (tmp_path / "killed").exists()
    assert sorted(one["restored"] for one in disturbed) == [False, False, True]
    weights = [one["weights"] for one in [*undisturbed, *disturbed]]
    assert weights == [weights[0]] * 2 * RANKS
