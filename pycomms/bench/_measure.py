"""One run of `pycomms bench`: which backends there are, their ranks in turns, and the document of it. One thread."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pycomms._config import inherited
from pycomms._version import __version__
from pycomms.bench import machine, summary
from pycomms.bench._inside import possible
from pycomms.bench.contestants import Backend, Setting
from pycomms.bench.driver import Driver, Note
from pycomms.bench.placement import NEAR_BELOW_NS
from pycomms.bench.plan import UNTIL_THE_END, cases
from pycomms.bench.progress import Progress
from pycomms.bench.protocol import Hub
from pycomms.doctor.child import Child, Told, python, read

MOST_RANKS = 8
"""Of those that are measured without being asked for."""
_LOOK_SECONDS = 90.0


def look() -> Told:
    """What the child has told that has torch."""
    return read(Child(python("pycomms.bench._inside", [], _LOOK_SECONDS)).finish(time.monotonic() + _LOOK_SECONDS))


def worlds(arguments: argparse.Namespace, cores: int, gpus: int) -> tuple[int, ...]:
    """Numbers of ranks, where none are asked for."""
    if arguments.device == "cuda":
        return (min(gpus, MOST_RANKS),)
    most = min(cores, MOST_RANKS)
    return (2,) if arguments.quick or most <= 2 else (2, most)


def measure(
    arguments: argparse.Namespace, why_not: Mapping[str, str], gpus: int, until: float, progress: Progress
) -> tuple[dict[str, Any], bool]:
    """The document of the run, and whether it was interrupted. why_not: by backend. until: of time.monotonic()."""
    began, started = time.monotonic(), datetime.now(timezone.utc).isoformat(timespec="seconds")
    cores = machine.usable_cores()
    asked = arguments.backends or [name for name in possible(arguments.device) if not why_not[name]]
    there = [name for name in asked if not why_not[name]]
    is_interrupted = False
    with tempfile.TemporaryDirectory(prefix="pycomms-bench-", dir=_memory()) as name:
        folder = Path(name)
        hub = Hub(folder / "hub")
        driver = Driver(
            contestants=[Backend(one) for one in there],
            effort=UNTIL_THE_END,
            probe=None,
            near_below=NEAR_BELOW_NS,
            hub=hub,
            folder=folder,
            say=progress.say,
        )
        notes = driver.results.notes
        notes += [_left_out(one, why_not[one]) for one in asked if why_not[one]]
        counts = arguments.ranks or worlds(arguments, len(cores), gpus)
        try:
            for done, world in enumerate(counts):
                if arguments.device == "cuda" and world > gpus:
                    notes.append(_left_out(f"{world} ranks", f"that needs {world} GPUs, and torch sees {gpus}"))
                    continue
                setting = Setting(
                    socket=hub.path,
                    world=world,
                    cores=",".join(map(str, cores[:world])) if world <= len(cores) else "",
                    device=arguments.device,
                    environment=_environment(folder, arguments.device),
                )
                share = (until - time.monotonic()) / (len(counts) - done)
                driver.run(setting, cases(arguments.ops, arguments.sizes, world), time.monotonic() + share)
        except KeyboardInterrupt:
            is_interrupted = True
        finally:
            hub.close()
            progress.end()
    return {
        "format": 1,
        "started": started,
        "seconds": round(time.monotonic() - began, 1),
        "pycomms": __version__,
        "machine": machine.describe(cores),
        "gpus": gpus,
        "device": arguments.device,
        "backends": there,
        "pinning": "rank i on core i where there is a core for every rank, else none",
        **driver.results.to_json(),
        "figures": summary.figures(driver.results.blocks, there),
    }, is_interrupted


def _left_out(what: str, why: str) -> Note:
    return Note(contestant=what, case="", text=f"left out: {why}", is_failure=True)


def _memory() -> str | None:
    """A folder in memory, for the ranks write their flight records there; None: where temporary files are."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None


def _environment(folder: Path, device: str) -> dict[str, str]:
    """Of the ranks; their records go with them."""
    mine = {"PYCOMMS_FR_DIR": str(folder / "records"), "PYCOMMS_FR_JOB": "bench"}
    if device == "cpu":
        mine["CUDA_VISIBLE_DEVICES"] = ""  # or a barrier would be one of GPUs
    return {name: value for name, value in {**inherited(), **mine}.items() if name != "PYCOMMS_FR_DUMP_DIR"}
