"""Compiles the small native programs of bench/native when a benchmark needs them, once per source and machine."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCES = Path(__file__).resolve().parent / "native"
COMPILE_TIMEOUT_S = 300
#: The limits are those of this machine, so the compiler may use all of it.
FLAGS = ("-std=c++20", "-O3", "-march=native", "-pthread")


class BuildError(Exception):
    """No compiler, or it refused; the message holds its last lines."""


def compiler() -> str:
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found is not None:
            return found
    raise BuildError("no C++ compiler is installed (c++, g++ or clang++)")


def build_program(name: str, cache: Path, extra: Sequence[str] = ()) -> Path:
    """The executable made from bench/native/NAME.cpp, from the cache when neither source nor flags have changed."""
    source = SOURCES / f"{name}.cpp"
    key = hashlib.sha256(" ".join([*FLAGS, *extra, compiler(), _cpu()]).encode())
    for part in [source, *sorted(SOURCES.glob("*.h"))]:
        key.update(part.read_bytes())
    program = cache / "programs" / f"{name}-{key.hexdigest()[:16]}"
    if program.exists():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_suffix(".unfinished")
    command = [compiler(), *FLAGS, "-o", str(unfinished), str(source), *extra]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as err:
        raise BuildError(f"compiling {source.name} took more than {COMPILE_TIMEOUT_S} s") from err
    if done.returncode != 0:
        raise BuildError(f"{source.name} does not compile:\n" + "\n".join(done.stderr.splitlines()[-8:]))
    unfinished.rename(program)
    return program


def _cpu() -> str:
    """What -march=native depends on, so that a cache shared between machines is not mistaken."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
