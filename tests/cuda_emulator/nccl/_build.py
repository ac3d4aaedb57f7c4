"""Where libnccl.so.2 is, built when need be. Must not import torch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .._compile import up_to_date

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
_SOURCES = (HERE, ROOT / "csrc" / "base", ROOT / "csrc" / "hostccl", ROOT / "cmake")
_SUFFIXES = {".cpp", ".h", ".map", ".cmake", ".txt"}


def library() -> Path:
    """The up-to-date library. Builds it first if need be: half a minute beyond the objects of libhostccl.so."""
    return up_to_date(ROOT / "build" / "plain", _sources, ["-S", str(ROOT)], "nccl_emulator") / "libnccl.so.2"


def _sources() -> Iterator[Path]:
    yield ROOT / "CMakeLists.txt"
    for folder in _SOURCES:
        yield from (path for path in folder.rglob("*") if path.suffix in _SUFFIXES)
