"""Runs one program as all ranks of a job on a cluster, as torchrun does without restarts.

One thread. The first rank that fails ends the others, and its exit status is the job's.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import IO, TYPE_CHECKING

from .cluster import Cluster

if TYPE_CHECKING:
    from typing_extensions import Self

TIMED_OUT = 124  # as timeout(1)
_KILL_TIMEOUT_S = 5.0
_LAST_WORDS_S = 0.5  # for output of a rank that has ended, should a child of it hold the pipe open
_CHUNK = 65536
_LONGEST_LOOK_S = 3600.0
"""The kernel counts how long a wait may last in milliseconds, in 32 bits: a job may last longer."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """master_port: free on every cluster, since its hosts are its own. timeout: None is as long as it takes.

    grace: between SIGTERM and SIGKILL, for the ranks that are left when one has failed.
    """

    argv: Sequence[str]
    per_host: int = 1
    master_port: int = 29500
    timeout: timedelta | None = None
    grace: timedelta = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of output. stream: stdout or stderr."""

    host: str
    rank: int
    stream: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """exit_code: 128 plus the number of the signal that ended the rank. first: the rank whose failure ended the job."""

    exit_code: int
    first: int | None
    exit_codes: list[int]


def environment(job: Job, cluster_size: int, host: int, local_rank: int, master: str) -> dict[str, str]:
    """The variables of torchrun for one rank."""
    return {
        "RANK": str(host * job.per_host + local_rank),
        "WORLD_SIZE": str(cluster_size * job.per_host),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(job.per_host),
        "GROUP_RANK": str(host),
        "GROUP_WORLD_SIZE": str(cluster_size),
        "MASTER_ADDR": master,
        "MASTER_PORT": str(job.master_port),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }


def run_job(cluster: Cluster, job: Job, emit: Callable[[Line], None]) -> Outcome:
    """Runs the job to its end. Whatever happens, its processes are gone when the cluster is."""
    with _Running(cluster, job, emit) as running:
        return running.to_the_end()


class _Pipe:
    """One stream of one rank, cut into lines."""

    def __init__(self, file: IO[str], host: str, rank: int, stream: str, emit: Callable[[Line], None]) -> None:
        self._fd = file.fileno()
        self._emit = emit
        self._of = {"host": host, "stream": stream}
        self._rank = rank
        self._rest = b""

    def read(self) -> bool:
        """Passes on what has come. False at the end."""
        chunk = os.read(self._fd, _CHUNK)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if not chunk and self._rest:
            lines, self._rest = [self._rest], b""
        for line in lines:
            self._emit(Line(rank=self._rank, text=line.decode(errors="replace"), **self._of))
        return bool(chunk)


class _Running:
    def __init__(self, cluster: Cluster, job: Job, emit: Callable[[Line], None]) -> None:
        self._timeout = job.timeout
        self._grace_s = job.grace.total_seconds()
        self._ranks: list[subprocess.Popen[str]] = []
        self._codes: dict[int, int] = {}
        self._waiting = selectors.DefaultSelector()
        self._pipes = 0
        master = cluster.hosts[0].ipv4
        for host in cluster.hosts:
            for local in range(job.per_host):
                env = environment(job, len(cluster.hosts), host.index, local, master)
                child = host.popen(job.argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                rank = len(self._ranks)
                self._ranks.append(child)
                for stream, file in (("stdout", child.stdout), ("stderr", child.stderr)):
                    assert file is not None
                    self._waiting.register(file, selectors.EVENT_READ, _Pipe(file, host.name, rank, stream, emit))
                    self._pipes += 1
                self._waiting.register(os.pidfd_open(child.pid), selectors.EVENT_READ, rank)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._waiting.get_map().values()):
            if isinstance(key.data, int) and isinstance(key.fileobj, int):
                os.close(key.fileobj)
        self._waiting.close()

    def to_the_end(self) -> Outcome:
        ends = None if self._timeout is None else time.monotonic() + self._timeout.total_seconds()
        self._wait(ends, until_failure=True)
        first = next((rank for rank, code in self._codes.items() if code != 0), None)
        timed_out = first is None and len(self._codes) < len(self._ranks)
        if len(self._codes) < len(self._ranks):
            self._signal(signal.SIGTERM)
            self._wait(time.monotonic() + self._grace_s)
            self._signal(signal.SIGKILL)
            self._wait(time.monotonic() + _KILL_TIMEOUT_S)
        self._last_words(time.monotonic() + _LAST_WORDS_S)
        code = TIMED_OUT if timed_out else 0 if first is None else self._codes[first]
        codes = [self._codes.get(rank, 128 + signal.SIGKILL) for rank in range(len(self._ranks))]
        return Outcome(exit_code=code, first=first, exit_codes=codes)

    def _wait(self, deadline: float | None, *, until_failure: bool = False) -> None:
        """Until all ranks have ended, or one has failed, or the deadline."""
        while len(self._codes) < len(self._ranks) and self._look(deadline):
            if until_failure and any(self._codes.values()):
                return

    def _last_words(self, deadline: float) -> None:
        while self._pipes and self._look(deadline):
            pass

    def _look(self, deadline: float | None) -> bool:
        """One round of what has come. False when the deadline has passed."""
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            return False
        for key, _ in self._waiting.select(None if left is None else min(left, _LONGEST_LOOK_S)):
            if isinstance(key.data, _Pipe):
                if not key.data.read():
                    self._waiting.unregister(key.fileobj)
                    self._pipes -= 1
            else:
                self._ended(key.data, key.fd)
        return True

    def _ended(self, rank: int, pidfd: int) -> None:
        status = self._ranks[rank].wait()
        self._codes[rank] = status if status >= 0 else 128 - status
        self._waiting.unregister(pidfd)
        os.close(pidfd)

    def _signal(self, number: signal.Signals) -> None:
        for rank, child in enumerate(self._ranks):
            if rank not in self._codes:
                child.send_signal(number)
