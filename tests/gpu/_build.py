"""The extension for this Python and this torch, built in place in the checkout; nothing is installed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ._children import run_child

ROOT = Path(__file__).resolve().parents[2]
_CODE = (".cpp", ".h", ".map", ".txt", ".cmake")
_LEAST_TORCH = (2, 11)
_TO_RUN = ("numpy", "pytest")
_TO_BUILD = ("setuptools", "cmake", "ninja")
_BUILD = "from setuptools import setup; setup()"
_ASK = "import torch, pycomms._C as c; print(c.torch_version == torch.__version__.split('+')[0])"


class CannotBuild(RuntimeError):
    """One line says why; what the compiler said may follow."""


def check_python() -> None:
    """Before torch is imported."""
    _need("to run", "torch", *_TO_RUN)
    import torch

    found = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if found < _LEAST_TORCH:
        raise CannotBuild(f"torch {torch.__version__} is too old: 2.11 or newer is needed")


def _need(purpose: str, *names: str) -> None:
    """Packages, or programs beside this Python or on the path."""
    absent = [name for name in names if importlib.util.find_spec(name) is None and _tool(name) is None]
    if absent:
        raise CannotBuild(f"{', '.join(absent)} needed {purpose}: {sys.executable} -m pip install {' '.join(absent)}")


def _tool(name: str) -> str | None:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.is_file() else shutil.which(name)


def is_built() -> bool:
    """For this Python and torch, and newer than every source."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    if done.stdout.strip() != "True":
        return False
    built = [*(ROOT / "pycomms").glob(f"_C.{sys.implementation.cache_tag}*.so"), ROOT / "pycomms/lib/libhostccl.so"]
    sources = [path for path in (ROOT / "csrc").rglob("*") if path.suffix in _CODE]
    return all(path.is_file() for path in built) and (
        max(path.stat().st_mtime for path in [*sources, ROOT / "setup_ext.py"]) <= min(p.stat().st_mtime for p in built)
    )


def build(seconds: float) -> None:
    """Only what has changed is compiled; --force because an extension for another torch may be in the way."""
    _need("to build the extension", *_TO_BUILD)
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-c", _BUILD, "-q", "build_ext", "--inplace", "--force"]
        code = run_child(command, cwd=ROOT, log=log, seconds=seconds, saying="building the extension")
        log.seek(0)
        said = log.read()
    if code is None:
        raise CannotBuild(f"the extension was not built within {seconds:.0f} s\n{_tail(said)}")
    if code != 0 or not is_built():
        raise CannotBuild(f"the extension was not built (exit code {code})\n{_tail(said)}")


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-25:])
