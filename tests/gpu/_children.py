"""A child process that does not outlive its time, nor its parent's Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_SAY_EVERY_S = 10.0
_KILL_PATIENCE_S = 10.0


def run_child(
    command: Sequence[str],
    *,
    cwd: Path,
    log: IO[str],
    seconds: float,
    saying: str,
    environment: Mapping[str, str] | None = None,
) -> int | None:
    """Its exit code; None when its time was over. It and all that it started are gone when this returns or raises."""
    begun = time.monotonic()
    child = subprocess.Popen(
        command, cwd=cwd, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
    )
    try:
        while (left := begun + seconds - time.monotonic()) > 0:
            try:
                return child.wait(min(_SAY_EVERY_S, left))
            except subprocess.TimeoutExpired:
                print(f"    {saying}: {time.monotonic() - begun:.0f} s", flush=True)
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(_KILL_PATIENCE_S)
