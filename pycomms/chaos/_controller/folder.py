"""The folder of a run: all that is needed to read what has happened, and to do it again."""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pycomms._version import __version__
from pycomms.chaos.core.parse import as_table, parse
from pycomms.chaos.core.plan import Plan
from pycomms.chaos.core.toml import to_toml

_TOLD = ("PYCOMMS_", "TORCH", "NCCL_", "GLOO_", "OMP_", "PYTHON", "CUDA_", "MASTER_")
"""Variables that may matter: others may be secrets."""
_SECRET = ("TOKEN", "KEY", "SECRET", "PASSWORD")


class RunError(Exception):
    """A folder that is no run's, or cannot be written."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    path: Path

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def output(self) -> Path:
        return self.path / "output.log"

    @property
    def records(self) -> Path:
        """Of the flight recorder: rings and dumps."""
        return self.path / "records"


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """What a run was."""

    plan: Plan
    command: tuple[str, ...]


def create(wanted: Path | None, name: str) -> Folder:
    """An empty one. Raises RunError where that cannot be."""
    folder = Folder(path=create_set(wanted, name))
    try:
        folder.records.mkdir()
    except OSError as error:
        raise RunError(f"{folder.records}: cannot be made: {error.strerror}") from error
    return folder


def create_set(wanted: Path | None, name: str) -> Path:
    """An empty folder for several runs. Raises RunError."""
    path = wanted or _free(Path("chaos-runs"), f"{time.strftime('%Y%m%d-%H%M%S')}-{_plain(name)}")
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise RunError(f"{path}: is not empty; --out takes a folder that is not there or has nothing in it")
    except OSError as error:
        raise RunError(f"{path}: cannot be made: {error.strerror}") from error
    return path.absolute()


def _plain(name: str) -> str:
    """For a folder's name."""
    return re.sub(r"[^\w.-]+", "-", name)[:60]


def _free(parent: Path, name: str) -> Path:
    number, path = 1, parent / name
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def describe(folder: Folder, plan: Plan, command: Sequence[str], environment: Mapping[str, str]) -> None:
    (folder.path / "plan.toml").write_text(to_toml(plan))
    told = {
        name: value
        for name, value in environment.items()
        if name.startswith(_TOLD) and not any(word in name for word in _SECRET)
    }
    described = {
        "command": list(command),
        "plan": as_table(plan),
        "seed": plan.seed,
        "environment": told,
        "versions": {"pycomms": __version__, "python": platform.python_version(), "system": platform.platform()},
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    (folder.path / "run.json").write_text(json.dumps(described, indent=1) + "\n")


def recorded(path: Path) -> Recorded:
    """Raises RunError, or PlanError where somebody has changed the plan into one that makes no sense."""
    try:
        described = json.loads((path / "run.json").read_text())
        command = tuple(str(word) for word in described["command"])
        given = described["plan"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path}: given no folder of a run ({error}), expected one that pycomms chaos run has made"
        ) from error
    return Recorded(plan=parse(given), command=command)


def read_events(path: Path) -> list[dict[str, Any]]:
    """Whole lines only: the last one may have been cut off."""
    events = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            continue
    return events
