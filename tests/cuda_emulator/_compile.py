"""Builds libraries of the emulator with CMake when they are missing or older than a source.

Any number of processes may ask at once. Must not import torch: it is loaded after the emulator.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path


class BuildError(RuntimeError):
    """The libraries could not be built; the text ends with the compiler's output."""


def up_to_date(folder: Path, sources: Callable[[], Iterable[Path]], configure: list[str], target: str = "all") -> Path:
    """The folder, with `target` in it built from the sources as they are. `configure`: CMake's arguments."""

    def newest() -> float:
        return max(path.stat().st_mtime for path in sources())

    def is_current() -> bool:
        return stamp.is_file() and stamp.stat().st_mtime >= newest()

    stamp = folder / "built"
    if is_current():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current():
            before = newest()
            _run(_tool("cmake"), "-B", str(folder), "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}", *configure)
            _run(_tool("cmake"), "--build", str(folder), "--target", target)
            stamp.touch()
            os.utime(stamp, (before, before))  # a source saved meanwhile is newer than that
    return folder


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise BuildError(f"{name} is needed to build the CUDA emulator: pip install {name}")
    return found


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
