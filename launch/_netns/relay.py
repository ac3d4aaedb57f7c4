"""The process that makes the way between hosts long and lossy, in a cluster's switch: starts it and gives it orders.

One thread at a time. relay.cpp is compiled at first use and kept in the user's cache.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from launch._compiled import CompileError, compile_once

from .shaping import Direction, Wire
from .system import NetnsError, Unavailable

SOURCE = Path(__file__).with_name("relay.cpp")
FLAGS = ("-std=c++20", "-O2")
ANSWER_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Of the frames since the relay began. `latest`: the most that one was late, which is this machine's doing."""

    carried: int
    lost: int
    dropped: int
    latest: timedelta


class Relay:
    def __init__(self, switch: str, ports: list[str], seed: int) -> None:
        command = ["ip", "netns", "exec", switch, str(program()), str(seed), *ports]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        self._waiting = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._waiting.register(self._process.stdout, selectors.EVENT_READ)

    def go(self) -> None:
        self._order("go")

    def set(self, way: Direction, wire: Wire) -> None:
        latency_ns = round(wire.latency.total_seconds() * 1e9)
        self._order(f"wire {way.speaker} {way.listener} {latency_ns} {round(wire.loss * 1e6)}")

    def counts(self) -> Counts:
        carried, lost, dropped, latest_ns = map(int, self._order("counts").split())
        return Counts(carried=carried, lost=lost, dropped=dropped, latest=timedelta(microseconds=latest_ns / 1000))

    def close(self) -> None:
        """Frames that are under way are lost."""
        self._waiting.close()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        try:
            self._process.wait(ANSWER_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(ANSWER_TIMEOUT_S)

    def _order(self, order: str) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        answer = b""
        deadline = time.monotonic() + ANSWER_TIMEOUT_S
        try:
            stdin.write(f"{order}\n".encode())
            while not answer.endswith(b"\n"):
                if not self._waiting.select(max(0.0, deadline - time.monotonic())):
                    raise NetnsError(f"the relay did not answer `{order}` within {ANSWER_TIMEOUT_S:.0f} s")
                chunk = stdout.read(4096)
                if not chunk:
                    raise NetnsError(f"the relay ended at `{order}`")
                answer += chunk
        except BrokenPipeError as err:
            raise NetnsError(f"the relay has ended before `{order}`") from err
        verdict, _, rest = answer.decode().strip().partition(" ")
        if verdict != "ok":
            raise NetnsError(f"the relay refused `{order}`: {rest}")
        return rest


def program() -> Path:
    """The compiled relay. Raises Unavailable where there is no compiler, or it refuses."""
    try:
        return compile_once(SOURCE, _cache(), FLAGS)
    except CompileError as error:
        raise Unavailable(f"latency and loss need a small C++ program: {error}") from error


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "pycomms-launch"
