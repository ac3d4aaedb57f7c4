"""Processes of the job, and no others: known by a variable in their environment that all inherit, or by a connection
that has shown the run's token.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MARK = "PYCOMMS_CHAOS"
"""The variable: its value is the door of the run."""


@dataclass(eq=False)
class Target:
    """A process that signals may be sent to: by a pidfd, so a number that is used again is no danger."""

    pid: int
    pidfd: int = field(init=False)

    def __post_init__(self) -> None:
        """Raises ProcessLookupError where it has ended."""
        self.pidfd = os.pidfd_open(self.pid)

    def send(self, number: int) -> bool:
        """False: it has ended, or is held no more."""
        if self.pidfd < 0:
            return False
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return False
        return True

    async def ended(self, within: float) -> bool:
        """Whether it ends within so many seconds; a zombie has ended."""
        loop = asyncio.get_running_loop()
        end = asyncio.Event()
        loop.add_reader(self.pidfd, end.set)
        try:
            await asyncio.wait_for(end.wait(), within)
        except asyncio.TimeoutError:
            return False
        finally:
            loop.remove_reader(self.pidfd)
        return True

    def close(self) -> None:
        os.close(self.pidfd)
        self.pidfd = -1


class Marked:
    """All processes of this user that have the variable with this value."""

    def __init__(self, variable: str, value: str) -> None:
        self._mark = f"{variable}={value}".encode()

    def pids(self) -> Iterator[int]:
        for path in Path("/proc").iterdir():
            if path.name.isdecimal() and self._has_mark(int(path.name)):
                yield int(path.name)

    def targets(self) -> list[Target]:
        """To be closed by the caller."""
        return [target for pid in self.pids() if (target := self.target(pid)) is not None]

    async def end(self, within: float) -> None:
        """Until all have ended by themselves, those too that start meanwhile."""
        until = time.monotonic() + within
        while (left := until - time.monotonic()) > 0 and (targets := self.targets()):
            await asyncio.gather(*(target.ended(left) for target in targets))
            for target in targets:
                target.close()

    def find(self, *words: str) -> Target | None:
        """One whose command line has all these words."""
        for pid in self.pids():
            with suppress(OSError):
                if set(words) <= {Path(word).name for word in command_of(pid)}:
                    return self.target(pid)
        return None

    def target(self, pid: int) -> Target | None:
        """Looked at again once the process is held: before, its number might have gone to another."""
        with suppress(OSError):
            target = Target(pid)
            if self._has_mark(pid):
                return target
            target.close()
        return None

    def variable(self, name: str) -> str:
        """As the first of them has it that has it; empty: none."""
        for pid in self.pids():
            with suppress(OSError):
                for one in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if one.startswith(f"{name}=".encode()):
                        return one.decode(errors="replace").partition("=")[2]
        return ""

    def _has_mark(self, pid: int) -> bool:
        with suppress(OSError):
            path = Path(f"/proc/{pid}")
            is_alive = path.joinpath("stat").read_text().rpartition(") ")[2][:1] not in ("Z", "X")
            return is_alive and self._mark in path.joinpath("environ").read_bytes().split(b"\0")
        return False

    def kill_all(self, within: float) -> list[str]:
        """Those that were still there, in words."""
        left: dict[int, str] = {}
        until = time.monotonic() + within
        while time.monotonic() < until and (targets := self.targets()):
            for target in targets:
                with suppress(OSError):
                    left.setdefault(target.pid, f"{target.pid} ({' '.join(command_of(target.pid))[:120]})")
                target.send(signal.SIGKILL)
            for target in targets:
                end = select.poll()
                end.register(target.pidfd, select.POLLIN)
                end.poll(max(0.0, until - time.monotonic()) * 1e3)
                target.close()
        return list(left.values())


def command_of(pid: int) -> list[str]:
    """Raises OSError where it has ended."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return [word.decode(errors="replace") for word in words if word]
