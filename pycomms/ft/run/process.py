"""A child of the agent: starts, is watched through a pidfd, ends with all that it has left behind. For the thread of
the event loop, which must be the process's main thread: the kernel ends the children with the thread that made them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

BOOT = Path(__file__).with_name("_boot.py")
_EXIT_CODE = 52 - 3
"""Which field of /proc/PID/stat it is, counted behind the name, which is the second: proc(5) counts from 1."""

_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a process has ended.

    Attributes:
        code: its exit code; for a signal, 128 and the number.
        signal: 0: none.
        dumped: it has left a core.
    """

    code: int
    signal: int = 0
    dumped: bool = False

    def __str__(self) -> str:
        if not self.signal:
            return f"exit code {self.code}"
        names = {number.value: number.name for number in signal.Signals}
        return f"signal {self.signal} ({names.get(self.signal, '?')}){', core dumped' if self.dumped else ''}"


class Process:
    """One child. It leads a session and process group of its own, so that a Ctrl-C at the terminal is the agent's."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        stdout: int | None = None,
        stderr: int | None = None,
        pass_fds: Sequence[int] = (),
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        """Raises OSError where the system has no room for a process."""
        # Python itself is started as the agent was; PYTHONPATH and the like are for what follows _boot.
        argv = [sys.executable, "-I", "-S", str(BOOT), str(os.getpid()), *command]
        self._popen = subprocess.Popen(
            argv,
            env=dict(environment),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.ending: Ending | None = None
        self._pidfd = os.pidfd_open(self.pid)

    def watch(self, ended: Callable[[Ending], None]) -> None:
        """Calls ``ended`` once, from the loop, when the process has ended and been reaped."""
        loop = asyncio.get_running_loop()

        def seen() -> None:
            loop.remove_reader(self._pidfd)
            ended(self._reap())

        loop.add_reader(self._pidfd, seen)

    def send(self, number: int) -> None:
        """To the process alone: what it has started is its own concern."""
        if self.ending is None:
            # Popen.send_signal() would reap one that has just ended, and how it has ended would be lost.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """SIGKILL, to all of its process group."""
        if self.ending is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def was_stopped(self) -> bool:
        """By a signal, since this was asked last. A debugger that holds a process does not stop it in this sense."""
        if self.ending is not None:
            return False
        try:
            return os.waitid(os.P_PIDFD, self._pidfd, os.WSTOPPED | os.WNOHANG) is not None
        except ChildProcessError:
            return False  # it has ended, and is not collected yet

    def is_stopped(self) -> bool:
        """At this moment, by a signal."""
        return self.ending is None and self._stat()[:1] == ["T"]

    def fate(self) -> Ending | None:
        """How it has ended, or certainly will: the kernel needs a tenth of a second to take down one that is large or
        waits for a core. None: it lives, or ends with code 0, or the kernel (before 5.17) tells only at the end."""
        if self.ending is not None:
            return self.ending
        try:
            status = int(self._stat()[_EXIT_CODE])
        except (ValueError, IndexError):
            return None
        number = status & 0x7F
        if status == 0 or number in _STOPS:  # a process that is stopped tells by which signal
            return None
        return Ending(code=128 + number, signal=number) if number else Ending(code=status >> 8)

    def _stat(self) -> list[str]:
        """The fields of /proc/PID/stat behind the name. Nothing of a process that is gone."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return []

    def _reap(self) -> Ending:
        # Not yet reaped, so that the number of its group cannot be another's: what it has left behind ends as well.
        result = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED | os.WNOWAIT)
        assert result is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        os.close(self._pidfd)
        if result.si_code == os.CLD_EXITED:
            self.ending = Ending(code=result.si_status)
        else:
            number = result.si_status
            self.ending = Ending(code=128 + number, signal=number, dumped=result.si_code == os.CLD_DUMPED)
        return self.ending
