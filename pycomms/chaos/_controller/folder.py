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
from pycomms.chaos.core.events import flaw
from pycomms.chaos.core.parse import PlanError, as_table, parse
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
    """Raises RunError, also where somebody has changed the plan into one that makes no sense."""
    try:
        described = json.loads((path / "run.json").read_text())
        command, given = described["command"], described["plan"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path}: given no folder of a run ({error}), expected one that pycomms chaos run has made"
        ) from error
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise RunError(f"{path}/run.json: command: given {command!r}, expected a list of words")
    try:
        return Recorded(plan=parse(given), command=tuple(command))
    except PlanError as error:
        raise RunError(f"{path}/run.json: plan: {error}") from error


def read_events(path: Path, faults: int) -> list[dict[str, Any]]:
    """Whole lines; the last one may have been cut off. Raises RunError where others are damaged.

    faults: how many the plan has.
    """
    try:
        lines = path.read_text(errors="replace").split("\n")
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from error
    events = []
    for number, line in enumerate(lines[:-1], 1):
        event = _decoded(line)
        if expected := flaw(event, faults):
            raise RunError(f"{path}, line {number}: given {line[:80]!r}, expected {expected}")
        events.append(event)
    return events


def _decoded(line: str) -> Any:
    """None: no JSON."""
    try:
        return json.loads(line)
    except ValueError:
        return None
