"""What a benchmark does with processes that it has started, when they are to end, and with what they have written."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path

LAST_LINES = 6


def end(processes: Iterable[subprocess.Popen[bytes]], timeout: float) -> None:
    """Ends each that still runs, with its whole process group, which it must lead. timeout: s to be reaped, each."""
    for process in processes:
        if process.poll() is None:  # not reaped yet, so its number cannot belong to anybody else
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=timeout)


def with_end_of(log: Path, what: str) -> str:
    """`what`, and the last lines of the log under it."""
    lines = log.read_text(errors="replace").strip().splitlines()[-LAST_LINES:] if log.exists() else []
    return "\n".join([what, *(f"    | {line}" for line in lines)])
