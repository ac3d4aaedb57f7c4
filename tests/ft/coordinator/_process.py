"""The command ``pycomms coordinator`` as a process of its own."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._jobs import DEADLINE_S

ROOT = Path(__file__).parents[3]


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Runs it, and kills it at the end if it is still there."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-m", "pycomms", "coordinator", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


def first_line(process: subprocess.Popen[str]) -> str:
    """What it prints when it serves."""
    assert process.stdout is not None
    until = time.monotonic() + DEADLINE_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        assert selector.select(max(until - time.monotonic(), 0)), f"it prints nothing within {DEADLINE_S} s"
    return process.stdout.readline()


@contextmanager
def serving(token: Path, *arguments: str, listen: str = "127.0.0.1:0") -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """A coordinator that serves, and what it prints with --json."""
    given = ("--listen", listen, "--token-file", str(token), "--json", *arguments)
    with command(*given) as process:
        line = first_line(process)
        assert line, process.communicate(timeout=DEADLINE_S)[1]
        yield process, json.loads(line)
