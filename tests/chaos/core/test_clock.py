"""Clocks of processes jump, and come back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pycomms.chaos import _inside
from pycomms.chaos._controller.clocks import Shifted

PATIENCE_S = 20.0
INSIDE = str(Path(_inside.__file__).parent)
TELL = """
import os, sys, time
grpc = {"__name__": "grpc._channel", "time": time}
print(os.getpid(), flush=True)
for _ in sys.stdin:
    seen = time.time(), time.time_ns() / 1e9, eval("time.time()", grpc)
    print(*seen, time.clock_gettime(time.CLOCK_REALTIME), flush=True)
"""


class Process:
    """A Python that says what time it is."""

    def __init__(self, door: Path) -> None:
        told = {**os.environ, "PYTHONPATH": INSIDE, "PYCOMMS_CHAOS": str(door), "PYCOMMS_CHAOS_CLOCKS": "1"}
        command = [sys.executable, "-c", TELL]
        self._popen = subprocess.Popen(command, env=told, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._popen.stdout is not None
        self.pid = int(self._popen.stdout.readline())

    def await_shift(self, seconds: int) -> None:
        """It looks at its file now and then. What gRPC sees is the true time."""
        until = time.monotonic() + PATIENCE_S
        while (seen := self._shifts()) != [seconds, seconds, 0]:
            assert time.monotonic() < until, f"{seen}, not {seconds}"

    def _shifts(self) -> list[int]:
        """Of time.time, time.time_ns, and the former as gRPC sees it, in seconds."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write("\n")
        self._popen.stdin.flush()
        *told, true_time = map(float, self._popen.stdout.readline().split())
        return [round(one - true_time) for one in told]

    def close(self) -> None:
        self._popen.communicate(timeout=PATIENCE_S)


def test_a_clock_jumps_and_comes_back(tmp_path: Path) -> None:
    first, second = Process(tmp_path), Process(tmp_path)
    try:
        first.await_shift(0)
        ahead = Shifted(tmp_path, first.pid, 3600.0, whole_host=False)
        back = Shifted(tmp_path, second.pid, -60.0, whole_host=True)
        first.await_shift(3540)
        second.await_shift(-60)
        later = Process(tmp_path)
        later.await_shift(-60)
        later.close()
        ahead.end()
        back.end()
        first.await_shift(0)
        second.await_shift(0)
    finally:
        first.close()
        second.close()


def test_who_does_not_look_for_its_clock_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is no Python that looks for its clock"):
        Shifted(tmp_path, os.getpid(), 1.0, whole_host=False)
