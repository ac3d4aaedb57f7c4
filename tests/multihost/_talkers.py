"""The talkers of _programs/talk.py, from the test's side. One thread; every wait has a deadline."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

from launch.netns import Cluster, Host

PROGRAM = Path(__file__).parent / "_programs" / "talk.py"
PATIENCE_S = 30.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(PROGRAM), *arguments]


def next_line(process: subprocess.Popen[str], patience_s: float = PATIENCE_S) -> str:
    """The next line that a process prints. Fails the test when none comes."""
    assert process.stdout is not None
    line = ""
    deadline = time.monotonic() + patience_s
    while not line.endswith("\n"):
        assert select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0], "nothing was printed"
        letter = os.read(process.stdout.fileno(), 1)  # and not more: a buffer would hide from select
        assert letter, f"the process ended with {process.wait(PATIENCE_S)} after {line!r}"
        line += letter.decode()
    return line.strip()


def start(host: Host, *arguments: str) -> subprocess.Popen[str]:
    """A talker that says when it is ready."""
    process = host.popen(command(*arguments), stdout=subprocess.PIPE)
    assert next_line(process) == "ready"
    return process


class Asker:
    """Questions from one host to an address where an echo is running."""

    def __init__(self, host: Host, address: str, protocol: str = "udp") -> None:
        argv = command("ask", protocol, address)
        self._process = host.popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, patience_s: float = PATIENCE_S) -> float | None:
        """The round trip in s; None when no answer came in time."""
        self.put(patience_s)
        return self.answer(patience_s)

    def put(self, patience_s: float) -> None:
        """Begins a question, for `answer`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{patience_s}\n")
        self._process.stdin.flush()

    def answer(self, patience_s: float) -> float | None:
        answer: float | None = json.loads(next_line(self._process, patience_s + PATIENCE_S))
        return answer

    def fastest(self, count: int) -> float:
        """The shortest of several round trips: a busy machine only adds to them."""
        times = [time for _ in range(count) if (time := self.ask()) is not None]
        assert len(times) == count
        return min(times)


def delivered(cluster: Cluster, speaker: int, listener: int, count: int) -> list[int]:
    """Which of so many datagrams came."""
    collector = start(cluster.hosts[listener], "collect")
    cluster.hosts[speaker].run(command("count-to", str(count), cluster.hosts[listener].ipv4))
    came: list[int] = json.loads(next_line(collector))
    return came


def megabits(cluster: Cluster, sender: int, receiver: int, size: int) -> float:
    """Mbit/s of one TCP connection."""
    start(cluster.hosts[receiver], "drain")
    argv = command("pour", str(size), cluster.hosts[receiver].ipv4)
    seconds = float(cluster.hosts[sender].run(argv, timeout=timedelta(seconds=60)).stdout)
    return size * 8 / seconds / 1e6
