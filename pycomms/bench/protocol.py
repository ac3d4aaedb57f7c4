"""The line protocol between the driver and the ranks of every contestant, over one Unix socket per rank.

    driver -> rank   prepare OP SIZE | run WARMUP SAMPLES INNER | release | quit
    rank -> driver   one JSON object a line: Hello first, then one Reply per command

A rank between two commands is blocked in a read, so it costs the contestant that is being measured nothing. The C++
ranks speak the same (bench/native/rank_link.h). Standard library only: the peers' environments have nothing else.
"""

from __future__ import annotations

import json
import select
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pycomms.bench.plan import CALIBRATION, Case, Op, Timing

_GONE = "the process is gone"


class LinkError(Exception):
    """The other end is gone, silent beyond the deadline, or not speaking the protocol."""


@dataclass(frozen=True, kw_only=True)
class Hello:
    contestant: str
    rank: int
    pid: int
    version: str  # of the library under test, as it calls itself

    @staticmethod
    def parse(line: str) -> Hello:
        raw = _object(line)
        return Hello(contestant=raw["contestant"], rank=raw["rank"], pid=raw["pid"], version=raw["version"])


@dataclass(frozen=True, kw_only=True)
class Reply:
    """Of one rank. `series` maps the name of a variant ("" for the only one) to microseconds per call, one a sample."""

    error: str = ""
    unsupported: str = ""
    series: dict[str, list[float]] = field(default_factory=dict)
    wall_ns: int = 0
    queued_ns: int = 0  # run-queue wait of all threads of the rank while it ran

    @staticmethod
    def parse(line: str) -> Reply:
        return Reply(**_object(line))


@dataclass(frozen=True, kw_only=True)
class Command:
    """What the driver asks of a rank; `verb` decides which fields mean anything."""

    verb: str
    op: Op = Op.BARRIER
    size: int = 0
    timing: Timing = CALIBRATION

    @staticmethod
    def prepare(case: Case) -> Command:
        return Command(verb="prepare", op=case.op, size=case.size)

    @staticmethod
    def run(timing: Timing) -> Command:
        return Command(verb="run", timing=timing)

    def encode(self) -> str:
        if self.verb == "prepare":
            return f"prepare {self.op.value} {self.size}"
        if self.verb == "run":
            return f"run {self.timing.warmup} {self.timing.samples} {self.timing.inner}"
        return self.verb

    @staticmethod
    def parse(line: str) -> Command:
        match line.split():
            case ["prepare", op, size]:
                return Command(verb="prepare", op=Op(op), size=int(size))
            case ["run", warmup, samples, inner]:
                timing = Timing(warmup=int(warmup), samples=int(samples), inner=int(inner))
                return Command(verb="run", timing=timing)
            case ["release" | "quit" as verb]:
                return Command(verb=verb)
        raise LinkError(f"not a command: {line!r}")


RELEASE = Command(verb="release")
QUIT = Command(verb="quit")


def _object(line: str) -> dict[str, Any]:
    try:
        raw = json.loads(line)
    except json.JSONDecodeError as err:
        raise LinkError(f"not JSON: {line[:200]!r}") from err
    if not isinstance(raw, dict):
        raise LinkError(f"not a JSON object: {line[:200]!r}")
    return raw


class Link:
    """One end of a connection that carries lines."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = bytearray()

    def fileno(self) -> int:
        return self._connection.fileno()

    def send(self, line: str) -> None:
        try:
            self._connection.sendall(line.encode() + b"\n")
        except (BrokenPipeError, ConnectionResetError) as err:
            raise LinkError(_GONE) from err
        except OSError as err:
            raise LinkError(f"the connection ended: {err}") from err

    def receive(self, deadline: float | None) -> str:
        """The next line. `deadline` is a time of the monotonic clock; None waits as long as the other end lives."""
        while b"\n" not in self._received:
            if deadline is not None:
                left = max(0.0, deadline - time.monotonic())
                if not select.select([self._connection], [], [], left)[0]:
                    raise LinkError("no answer in time")
            try:
                chunk = self._connection.recv(1 << 20)
            except ConnectionResetError as err:  # it ended before it had read all that was sent
                raise LinkError(_GONE) from err
            except OSError as err:
                raise LinkError(f"the connection ended: {err}") from err
            if not chunk:
                raise LinkError(_GONE)
            self._received += chunk
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        return line.decode()

    def quiet(self) -> bool:
        """Whether nothing has come that is not yet received, and the other end is still there."""
        return not self._received and not select.select([self._connection], [], [], 0.0)[0]

    def close(self) -> None:
        self._connection.close()


class Hub:
    """The driver's listening end; ranks connect to it by path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(64)

    def accept(self, deadline: float) -> tuple[Hello, Link] | None:
        """The next rank that reports, or None at the deadline. One that has connected has a second to say who it is."""
        self._listener.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            connection, _ = self._listener.accept()
        except TimeoutError:
            return None
        connection.settimeout(None)
        link = Link(connection)
        return Hello.parse(link.receive(max(deadline, time.monotonic() + 1.0))), link

    def fileno(self) -> int:
        return self._listener.fileno()

    def close(self) -> None:
        self._listener.close()


def connect(path: str, hello: Hello) -> Link:
    """The rank's end: connected and announced."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    link = Link(connection)
    link.send(json.dumps(vars(hello)))
    return link
