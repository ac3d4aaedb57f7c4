"""`pycomms chaos` as users start it, with jobs whose workers have torch already (tests/warm)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pycomms.chaos._trial import trial
from pycomms.chaos.core.drawing import settle
from pycomms.chaos.core.parse import parse

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[3]
PATIENCE_S = 110.0


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return report

    def state(self, invariant: str) -> str:
        return str(next(one["state"] for one in self.report["invariants"] if one["name"] == invariant))

    def said(self, invariant: str) -> str:
        found = next(one for one in self.report["invariants"] if one["name"] == invariant)
        return "\n".join([found["what"], *found["details"]])


def chaos(folder: Path, *arguments: str, environment: dict[str, str] | None = None) -> Ran:
    """Runs it to its end."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-m", "pycomms", "chaos", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    print(done.stdout, done.stderr)
    return Ran(done.returncode, done.stdout, done.stderr, folder / "run")


def run(folder: Path, plan: str, command: Sequence[str], *options: str) -> Ran:
    (folder / "plan.toml").write_text(plan)
    return chaos(folder, "run", "plan.toml", "--out", "run", "--quiet", *options, "--", *command)


def run_here(folder: Path, plan: str, command: Sequence[str]) -> Ran:
    """As :func:`run`, without a process for the controller."""
    done = trial(settle(parse(tomllib.loads(plan))), command, folder / "run", quiet=True)
    print(done.text)
    return Ran(done.exit_code, done.text, "", folder / "run")


def elastic(python: str, *arguments: str, ranks: int = 3, deadline: float = 8.0) -> list[str]:
    """The standard job under `pycomms run`."""
    return [
        *(sys.executable, "-m", "pycomms", "run", f"--nproc-per-node={ranks}", f"--recovery-deadline={deadline}"),
        *("--no-python", python, "-m", "pycomms.chaos.workload", *arguments),
    ]


def plain(python: str, *arguments: str, ranks: int = 3) -> list[str]:
    """The standard job under torchrun."""
    return [
        *(python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", "--no-python", python),
        *("-m", "pycomms.chaos.workload", *arguments),
    ]
