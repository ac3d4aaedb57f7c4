"""Warm worker processes, made by a fork server that has imported torch once, so that a new rank costs milliseconds; and
torch's compiler, which takes the first optimizer of a process or its first sharded model 3 s.

Used by the test's thread only. Must not know about jobs or process groups.
"""

from __future__ import annotations

import atexit
import itertools
import multiprocessing
import os
import signal
import tempfile
import time
from multiprocessing.forkserver import set_forkserver_preload
from pathlib import Path
from typing import TYPE_CHECKING

from . import worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

_STACK_DEADLINE_S = 5.0
_START_DEADLINE_S = 60.0  # the first one waits for the server's import of torch
_END_OF_STACKS = "Current thread"


class Worker:
    def __init__(self, process: ForkServerProcess, connection: Connection, log_path: Path) -> None:
        self.process = process
        self.connection = connection
        self._log_path = log_path
        self._log_start = 0

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def await_ready(self) -> None:
        if not self.connection.poll(_START_DEADLINE_S):
            raise RuntimeError(f"a worker did not start within {_START_DEADLINE_S:.0f} s; its output:\n{self.log()}")
        self.connection.recv()

    def begin_log(self) -> None:
        self._log_start = self._log_path.stat().st_size if self._log_path.exists() else 0

    def log(self) -> str:
        with self._log_path.open("rb") as file:
            file.seek(self._log_start)
            return file.read()[-20_000:].decode(errors="replace")

    def stacks(self) -> str:
        """Makes the process write the Python stacks of all its threads, whatever it is doing, and reads them."""
        before = len(self.log())
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGUSR1)
        deadline = time.monotonic() + _STACK_DEADLINE_S
        while time.monotonic() < deadline and self.process.is_alive():
            text = self.log()
            if _END_OF_STACKS in text[before:]:
                break
            self.process.join(0.05)  # a bounded wait that also ends when the process does
        return self.log()

    def state(self) -> str:
        """Scheduler state of the main thread: R, S, D, T, Z, or "" when it is gone."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return ""

    def signal(self, number: int) -> None:
        if self.process.is_alive():
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.join(10.0)
        self.connection.close()
        self.process.close()
        self._log_path.unlink(missing_ok=True)


class Pool:
    def __init__(self, preload: Sequence[str] = (), hosts: int = 1) -> None:
        """`preload`: modules that the server imports before torch. `hosts`: as many do they pretend to be on."""
        set_forkserver_preload([*preload, "torch", "torch.distributed", "torch._dynamo", "pytest", worker.__name__])
        self._context = multiprocessing.get_context("forkserver")
        self._temporary = tempfile.TemporaryDirectory(prefix="pycomms-test-")
        self.folder = Path(self._temporary.name)
        self._hosts = hosts
        self._serial = itertools.count()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        atexit.register(self.close)  # before multiprocessing's own end, which would wait for the workers
        self.give_back(self.take(1, fresh=True))  # so that the server's imports are not part of the first test's time

    def take(self, count: int, fresh: bool) -> list[Worker]:
        """`count` workers that nobody else uses; `fresh` ones have never run anything."""
        idle = [] if fresh else [self._idle.pop() for _ in range(min(count, len(self._idle)))]
        started = [self._start() for _ in range(count - len(idle))]
        workers = idle + started
        self._busy.update(workers)
        for new in started:
            new.await_ready()
        for taken in workers:
            taken.begin_log()
        return workers

    def give_back(self, workers: list[Worker]) -> None:
        self._busy.difference_update(workers)
        self._idle.extend(workers)

    def discard(self, workers: list[Worker]) -> None:
        self._busy.difference_update(workers)
        for gone in workers:
            gone.kill()

    def close(self) -> None:
        atexit.unregister(self.close)
        self.discard(self._idle + list(self._busy))
        self._idle.clear()
        self._temporary.cleanup()

    def _start(self) -> Worker:
        here, there = self._context.Pipe()
        number = next(self._serial)
        log_path = self.folder / f"worker-{number}.log"
        host = f"host-{number % self._hosts}" if self._hosts > 1 else ""
        process = self._context.Process(target=worker.main, args=(there, str(log_path), host))
        process.start()
        there.close()
        return Worker(process, here, log_path)
