"""The processes of a job, seen by the parent: started, spoken to in lines, and ended for certain.

One thread. Every wait has a deadline. What a line means is for others to know.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pycomms.bench.ending import end, with_end_of
from pycomms.bench.protocol import Hello, Hub, Link, LinkError

START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 10.0


class JobError(Exception):
    """A job did not do what the trial needs; the text says what, and holds the end of its output."""


@dataclass(frozen=True)
class Member:
    """A process that has reported. Its number is the one that it was started with, and never used again."""

    number: int
    pid: int
    link: Link
    pidfd: int
    version: str

    def say(self, **message: Any) -> None:
        try:
            self.link.send(json.dumps(message))
        except LinkError as err:
            raise JobError(f"member {self.number}: {err}") from err

    def hear(self, deadline: float) -> dict[str, Any]:
        """The next message; a failure that the process reports is raised."""
        try:
            message = json.loads(self.link.receive(deadline))
        except LinkError as err:
            raise JobError(f"member {self.number}: {err}") from err
        if "failure" in message:
            raise JobError(f"member {self.number}: {message['failure']}")
        return dict(message)

    def kill(self) -> int:
        """Returns the monotonic time in ns just before."""
        before = time.monotonic_ns()
        signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        return before

    def await_end(self, deadline: float) -> int:
        """Returns the monotonic time in ns at which the process was seen to be gone."""
        if not select.select([self.pidfd], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise JobError(f"member {self.number} did not end in time")
        return time.monotonic_ns()

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        os.close(self.pidfd)
        self.link.close()


def hear_all(members: Iterable[Member], timeout_s: float) -> list[dict[str, Any]]:
    deadline = time.monotonic() + timeout_s
    return [member.hear(deadline) for member in members]


class Processes:
    """All that a job has started. `close` ends them, whatever state they are in."""

    def __init__(self, job: str, hub: Hub, log: Path, env: Mapping[str, str]) -> None:
        self.job = job
        self.socket = hub.path
        self._hub = hub
        self._log = log
        self._env = env
        self._started: list[subprocess.Popen[bytes]] = []
        self.members: list[Member] = []

    def start(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as output:
            process = subprocess.Popen(
                argv,
                env=dict(self._env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def admit(self, count: int) -> list[Member]:
        """The next processes that report, in the order in which they do."""
        deadline = time.monotonic() + START_TIMEOUT_S
        admitted: list[Member] = []
        while len(admitted) < count:
            try:
                reported = self._hub.accept(deadline)
            except LinkError as err:
                raise self.failure(f"a process ended while reporting: {err}") from err
            if reported is None:
                raise self.failure(f"{count - len(admitted)} processes did not report within {START_TIMEOUT_S:.0f} s")
            admitted += self._member(*reported)
        return admitted

    def _member(self, hello: Hello, link: Link) -> list[Member]:
        if hello.contestant != self.job:
            link.close()  # late, and of a job that was given up
            return []
        member = Member(hello.rank, hello.pid, link, os.pidfd_open(hello.pid), hello.version)
        self.members.append(member)
        return [member]

    def forget(self, member: Member) -> None:
        """A member that is gone."""
        self.members.remove(member)
        member.close()
        for process in self._started:
            process.poll()  # reaps it

    def failure(self, what: str) -> JobError:
        return JobError(with_end_of(self._log, what))

    def close(self) -> None:
        for member in self.members:
            member.close()
        self.members.clear()
        end(self._started, END_TIMEOUT_S)
        self._started.clear()
