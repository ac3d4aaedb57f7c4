"""Builds the emulator's libraries when they are missing or older than a source, into build/ of the repository.

Any number of processes may ask at once. Must not import torch: it is loaded after the emulator.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).resolve().parent
ROOT = SOURCES.parents[1]
_COMPILED = {".cpp", ".h", ".txt", ".map"}
_FOLDERS = ("", "src", "api", "driver", "stubs", "aten", "tests")


class BuildError(RuntimeError):
    """The libraries could not be built; the text ends with the compiler's output."""


def torch_folder() -> Path:
    """The folder of the installed torch, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise BuildError("torch is not installed")
    return Path(spec.origin).parent


def fits_torch() -> bool:
    """Whether the installed torch is one for CUDA 13, which is what the libraries stand in for."""
    version = (torch_folder() / "version.py").read_text()
    return re.search(r"^cuda\b.*=\s*['\"]13\.", version, re.MULTILINE) is not None


def library_folder() -> Path:
    """The folder with up-to-date libraries. Builds them first if need be: half a minute on two cores."""
    folder = ROOT / "build" / f"cuda_emulator-{sys.implementation.cache_tag}"
    stamp = folder / "built"
    if _is_current(stamp):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_current(stamp):
            newest = _newest_source()
            _build(folder)
            stamp.touch()
            os.utime(stamp, (newest, newest))  # a source saved meanwhile is newer than that
    return folder


def _sources() -> Iterator[Path]:
    for name in _FOLDERS:
        yield from (path for path in (SOURCES / name).iterdir() if path.suffix in _COMPILED)


def _newest_source() -> float:
    return max(path.stat().st_mtime for path in _sources())


def _is_current(stamp: Path) -> bool:
    return stamp.is_file() and stamp.stat().st_mtime >= _newest_source()


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise BuildError(f"{name} is needed to build the CUDA emulator: pip install {name}")
    return found


def _build(folder: Path) -> None:
    _run(
        _tool("cmake"), "-S", str(SOURCES), "-B", str(folder), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}",
        f"-DPython3_EXECUTABLE={sys.executable}",
        f"-DCUEMU_TORCH={torch_folder()}",
    )  # fmt: skip
    _run(_tool("cmake"), "--build", str(folder))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
