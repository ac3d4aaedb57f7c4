"""How ranks of this folder are started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def python_rank(module: str, *, python: str = sys.executable, **options: object) -> list[str]:
    """The command line of a Python rank; options without a value are left out."""
    argv = [python, "-m", f"bench.ranks.{module}"]
    for name, value in options.items():
        if value != "":
            argv += [f"--{name.replace('_', '-')}", str(value)]
    return argv


def environment(**more: str) -> dict[str, str]:
    """Of a child that imports from this tree, wherever it runs."""
    path = os.pathsep.join(part for part in (str(ROOT), os.environ.get("PYTHONPATH", "")) if part)
    return {**os.environ, "PYTHONPATH": path, **more}
