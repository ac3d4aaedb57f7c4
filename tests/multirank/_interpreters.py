"""Programs in interpreters of their own, side by side: only those run Python's and C++'s ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    returncode: int
    output: str
    errors: str


def run_interpreters(
    arguments: Sequence[Sequence[str]], timeout: float = 90.0, python: str = sys.executable, **environment: str
) -> list[Ended]:
    """Runs ``python *arguments[i]`` for each i and waits for all of them; whatever happens, none is left.

    timeout: s, for each. environment: variables on top of this process's.
    """
    here = {**os.environ, "PYTHONPATH": str(Path.cwd()), **environment}
    processes = [
        subprocess.Popen([python, *one], env=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for one in arguments
    ]
    try:
        ended = []
        for process in processes:
            output, errors = process.communicate(timeout=timeout)
            ended.append(Ended(process.returncode, output, errors))
        return ended
    finally:
        for process in processes:
            process.kill()
            process.wait()
