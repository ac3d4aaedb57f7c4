"""Builds libnccl.so.2 when it is missing or older than a source, into build/ of the repository.

Any number of processes may ask at once. Must not import torch.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
_SOURCES = (HERE, ROOT / "csrc" / "base", ROOT / "csrc" / "hostccl", ROOT / "cmake")
_SUFFIXES = {".cpp", ".h", ".map", ".cmake", ".txt"}


class BuildError(RuntimeError):
    """The library could not be built; the text ends with the compiler's output."""


def library() -> Path:
    """The up-to-date library. Builds it first if need be: a minute and a half on two cores."""
    folder = ROOT / "build" / "nccl_emulator"
    stamp = folder / "built"
    if not _is_current(stamp):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_current(stamp):
                newest = _newest_source()
                _build(folder)
                stamp.touch()
                os.utime(stamp, (newest, newest))  # a source saved meanwhile is newer than that
    return folder / "libnccl.so.2"


def _newest_source() -> float:
    files = [ROOT / "CMakeLists.txt"]
    files += [path for folder in _SOURCES for path in folder.rglob("*") if path.suffix in _SUFFIXES]
    return max(path.stat().st_mtime for path in files)


def _is_current(stamp: Path) -> bool:
    return stamp.is_file() and stamp.stat().st_mtime >= _newest_source()


def _tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise BuildError(f"{name} is needed to build the emulated libnccl: pip install {name}")
    return found


def _build(folder: Path) -> None:
    _run(
        _tool("cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}", "-DPYCOMMS_TESTS=OFF", "-DPYCOMMS_NCCL_EMULATOR=ON",
    )  # fmt: skip
    _run(_tool("cmake"), "--build", str(folder), "--target", "nccl_emulator")


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
