"""``pycomms run``."""

from __future__ import annotations

import asyncio

from pycomms._config import inherited
from pycomms.ft.run.options import parse
from pycomms.ft.run.run import run


def main(argv: list[str]) -> int:
    """Runs the job to its end and returns the exit code."""
    environment = inherited()
    try:
        options = parse(argv, environment)
    except SystemExit as end:
        return int(end.code or 0)
    return asyncio.run(run(options, environment))
