"""Where the host has placed the two cores: a virtual machine's cores are moved between a shared cache ("near") and
separate ones ("far") within seconds, and every shared-memory figure depends on it.

The probe brackets every measured block. A block whose two probes disagree has no placement and is dropped.
"""

from __future__ import annotations

import select
import subprocess
import time
from enum import Enum
from pathlib import Path

#: One-way nanoseconds of a cache line below which two cores share a cache. Seen: 55 near, 250 far.
NEAR_BELOW_NS = 120.0
#: Probes of one block may differ by this factor, within one placement.
AGREE_WITHIN = 1.6


class Placement(str, Enum):
    NEAR = "near"
    FAR = "far"
    MIXED = "mixed"  # changed during the block
    UNKNOWN = "unprobed"  # one core, or the probe is not running


def classify(before: float | None, after: float | None, near_below: float) -> Placement:
    """The placement of a block from the probes around it, in nanoseconds."""
    if before is None or after is None:
        return Placement.UNKNOWN
    sides = {probe < near_below for probe in (before, after)}
    if len(sides) == 2 or max(before, after) > AGREE_WITHIN * min(before, after):
        return Placement.MIXED
    return Placement.NEAR if sides.pop() else Placement.FAR


class Probe:
    """The running probe program; one ping-pong of two cores on demand. One thread."""

    def __init__(self, program: Path, cores: tuple[int, int]) -> None:
        self._process = subprocess.Popen(
            [str(program), str(cores[0]), str(cores[1])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def measure(self, patience_s: float = 10.0) -> float | None:
        """Nanoseconds one way, or None when the probe does not answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + patience_s
        answer = b""
        try:
            self._process.stdin.write(b"\n")
            while not answer.endswith(b"\n"):
                left = max(0.0, deadline - time.monotonic())
                if not select.select([self._process.stdout], [], [], left)[0]:
                    return None
                chunk = self._process.stdout.read(64)
                if not chunk:
                    return None
                answer += chunk
        except OSError:
            return None
        return float(answer)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=5)
