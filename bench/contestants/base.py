"""How ranks of this folder are started."""

from __future__ import annotations

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
