"""Where the emulator's libraries are, built when need be, and for which torch they are. Must not import torch."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from ._compile import BuildError, up_to_date

SOURCES = Path(__file__).resolve().parent
ROOT = SOURCES.parents[1]
_COMPILED = {".cpp", ".h", ".txt", ".map"}
_FOLDERS = ("", "src", "api", "driver", "stubs", "aten", "tests")


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
    configure = ["-S", str(SOURCES), f"-DPython3_EXECUTABLE={sys.executable}", f"-DCUEMU_TORCH={torch_folder()}"]
    return up_to_date(ROOT / "build" / f"cuda_emulator-{sys.implementation.cache_tag}", _sources, configure)


def _sources() -> Iterator[Path]:
    for name in _FOLDERS:
        yield from (path for path in (SOURCES / name).iterdir() if path.suffix in _COMPILED)
