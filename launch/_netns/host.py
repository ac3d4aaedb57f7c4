"""One host of a cluster: a place to start processes in. One thread at a time."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, TypeAlias

from .plan import INTERFACE, Addresses
from .system import inside

Stream: TypeAlias = "int | IO[str] | IO[bytes] | None"
DEFAULT_TIMEOUT = timedelta(seconds=60)


class Host:
    """`ipv4`, `ipv6`: its addresses, on `interface`. `name` is its host name, and every host can resolve it."""

    def __init__(self, addresses: Addresses, namespace: str) -> None:
        self.index = addresses.index
        self.name = addresses.name
        self.ipv4 = addresses.ipv4
        self.ipv6 = addresses.ipv6
        self.interface = INTERFACE
        self.namespace = namespace
        self._children: list[subprocess.Popen[str]] = []

    def command(self, argv: Sequence[str]) -> list[str]:
        """What becomes `argv` on this host, with the process id of whoever starts it."""
        return inside(self.namespace, self.name, argv)

    def popen(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
    ) -> subprocess.Popen[str]:
        """Starts a process on this host, in text mode and in a session of its own: Ctrl-C does not reach it by itself.

        `env` comes on top of the caller's environment. The process ends with the cluster at the latest.
        """
        child = subprocess.Popen(
            self.command(argv),
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        self._children.append(child)
        return child

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: timedelta = DEFAULT_TIMEOUT,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a process to its end and returns its output.

        Raises:
            subprocess.TimeoutExpired: it did not end in time; it and its process group are killed.
            subprocess.CalledProcessError: its exit status was not 0, and `check`.
        """
        child = self.popen(argv, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            output, errors = child.communicate(timeout=timeout.total_seconds())
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            raise
        done = subprocess.CompletedProcess(list(argv), child.returncode, output, errors)
        if check:
            done.check_returncode()
        return done

    def kill(self) -> None:
        """Ends what `popen` started: one that has only just begun is not in the namespace yet, and not found there."""
        for child in self._children:
            child.kill()

    def reap(self, timeout: timedelta) -> None:
        """Takes the exit status of children that have been killed, and closes their pipes."""
        for child in self._children:
            child.wait(timeout.total_seconds())
            for stream in (child.stdin, child.stdout, child.stderr):
                if stream is not None:
                    with suppress(BrokenPipeError):
                        stream.close()
        self._children.clear()
