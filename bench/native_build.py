"""Compiles the small native programs of bench/native when a benchmark needs them, once per source and machine."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

from launch._compiled import compile_once

SOURCES = Path(__file__).resolve().parent / "native"
#: The limits are those of this machine, so the compiler may use all of it.
FLAGS = ("-std=c++20", "-O3", "-march=native", "-pthread")


def build_program(name: str, cache: Path, extra: Sequence[str] = ()) -> Path:
    """The executable made from bench/native/NAME.cpp, from the cache when neither source nor flags have changed."""
    headers = sorted(SOURCES.glob("*.h"))
    return compile_once(SOURCES / f"{name}.cpp", cache / "programs", FLAGS, libraries=extra, depends=[*headers, _cpu()])


def _cpu() -> str:
    """What -march=native depends on, so that a cache shared between machines is not mistaken."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
