"""Compiles small C++ programs when they are first needed, once for each source and compiler, into the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

COMPILE_TIMEOUT_S = 300


class CompileError(Exception):
    """No compiler, or it refused; the message holds its last lines."""


def compiler() -> str:
    """Its path. Raises CompileError."""
    for name in ("c++", "g++", "clang++"):
        found = shutil.which(name)
        if found is not None:
            return found
    raise CompileError("no C++ compiler is installed (c++, g++ or clang++)")


def compile_once(
    source: Path, folder: Path, flags: Sequence[str], *, libraries: Sequence[str] = (), depends: Sequence[object] = ()
) -> Path:
    """The executable, from `folder` when nothing that it is made from has changed. Raises CompileError.

    `depends`: what it depends on besides: files by their contents, anything else by its text.
    """
    key = hashlib.sha256(" ".join([*flags, *libraries, compiler()]).encode())
    for part in (source, *depends):
        key.update(part.read_bytes() if isinstance(part, Path) else str(part).encode())
    program = folder / f"{source.stem}-{key.hexdigest()[:16]}"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_name(f"{program.name}.{os.getpid()}")
    command = [compiler(), *flags, "-o", str(unfinished), str(source), *libraries]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as err:
        raise CompileError(f"compiling {source.name} took more than {COMPILE_TIMEOUT_S} s") from err
    if done.returncode != 0:
        raise CompileError(f"{source.name} does not compile:\n" + "\n".join(done.stderr.splitlines()[-8:]))
    unfinished.rename(program)
    return program
