"""The running ranks of one contestant: started once, idle between commands, ended for certain.

One thread, the driver's. Every wait has a deadline. Must not know which contestant it runs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pycomms.bench.ending import end, with_end_of
from pycomms.bench.protocol import QUIT, Command, Hello, Hub, Link, LinkError, Reply

START_TIMEOUT_S = 180.0
QUIT_TIMEOUT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Launch:
    """One process to start: a rank, or a launcher that starts them."""

    argv: Sequence[str]
    env: Mapping[str, str]


class GroupError(Exception):
    """A contestant failed; the text says how and holds the end of its output."""


@dataclass(frozen=True)
class _Rank:
    link: Link
    pidfd: int


class RankGroup:
    """Ranks 0 to `world` - 1 of one contestant."""

    def __init__(self, contestant: str, world: int, launches: Sequence[Launch], hub: Hub, log: Path) -> None:
        self.contestant = contestant
        self.version = ""
        self._log = log
        self._ranks: dict[int, _Rank] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        try:
            with log.open("wb") as output:
                for launch in launches:
                    self._processes.append(
                        subprocess.Popen(
                            launch.argv,
                            env=dict(launch.env),
                            stdin=subprocess.DEVNULL,
                            stdout=output,
                            stderr=subprocess.STDOUT,
                            start_new_session=True,
                        )
                    )
            self._gather(hub, world)
        except BaseException:  # an interrupt, too
            self.kill()
            raise

    def _gather(self, hub: Hub, world: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(self._ranks) < world:
            if time.monotonic() > deadline:
                missing = sorted(set(range(world)) - set(self._ranks))
                raise self._failure(f"ranks {missing} did not report within {START_TIMEOUT_S:.0f} s")
            for process in self._processes:
                if process.poll() not in (None, 0):
                    raise self._failure(f"ended with status {process.returncode} while starting")
            try:
                reported = hub.accept(min(deadline, time.monotonic() + 0.2))
            except LinkError as err:
                raise self._failure(f"a rank ended while reporting: {err}") from err
            if reported is not None:
                self._admit(*reported)

    def _admit(self, hello: Hello, link: Link) -> None:
        if hello.contestant != self.contestant or hello.rank in self._ranks:
            link.close()  # a late rank of a group that was given up
            return
        self._ranks[hello.rank] = _Rank(link, os.pidfd_open(hello.pid))
        self.version = hello.version

    def ask(self, command: Command, timeout_s: float) -> list[Reply]:
        """The replies of all ranks, by rank. Raises GroupError, after which the group is to be killed."""
        deadline = time.monotonic() + timeout_s
        for number, rank in self._ranks.items():
            try:
                rank.link.send(command.encode())
            except LinkError as err:
                raise self._failure(f"{command.encode()}: rank {number}: {err}") from err
        replies = []
        for number in sorted(self._ranks):
            try:
                replies.append(Reply.parse(self._ranks[number].link.receive(deadline)))
            except LinkError as err:
                raise self._failure(f"{command.encode()}: rank {number}: {err}") from err
        return replies

    def cpu_seconds(self) -> float:
        """Processor time that the ranks have used so far."""
        total = 0.0
        ticks = os.sysconf("SC_CLK_TCK")
        for rank in self._ranks.values():
            pid = _pid_of(rank.pidfd)
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                total += (int(fields[11]) + int(fields[12])) / ticks
        return total

    def close(self) -> None:
        """Asks the ranks to end, and ends those that do not."""
        for rank in self._ranks.values():
            with contextlib.suppress(LinkError):
                rank.link.send(QUIT.encode())
        deadline = time.monotonic() + QUIT_TIMEOUT_S
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """Ends whatever still runs: the ranks by their descriptors, launchers and what they started by their group."""
        for rank in self._ranks.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(rank.pidfd, signal.SIGKILL)
            os.close(rank.pidfd)
            rank.link.close()
        self._ranks = {}
        end(self._processes, QUIT_TIMEOUT_S)
        self._processes = []

    def _failure(self, what: str) -> GroupError:
        return GroupError(with_end_of(self._log, what))


def _pid_of(pidfd: int) -> int:
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1
