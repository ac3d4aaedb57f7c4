"""One run of a function on N ranks: hands out the jobs, collects the outcomes, and never waits without a deadline.

Used by the test's thread only.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import deque
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from .job import Job, reference_to
from .outcome import Died, Failed, Ok, Outcome, RanksError, Stuck

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from types import TracebackType

    from .pool import Pool, Worker

# After the first rank fails the others get this long to say what they saw: their errors often explain the first.
_GRACE_S = 2.0
# How often, and at what interval in s, a scheduler state has to be seen before it counts as steady.
_STEADY = 5
_LOOK_S = 0.01


class Run:
    """Use it in a `with` statement: whatever happens, no worker is left running the function."""

    def __init__(self, pool: Pool, workers: list[Worker], jobs: list[Job], *, timeout: float, reuse: bool) -> None:
        self._pool = pool
        self._workers = workers
        self._target = jobs[0].target
        self._store_path = Path(jobs[0].store_path)
        self._deadline = time.monotonic() + timeout
        self._reuse = reuse
        self._told: list[deque[Any]] = [deque() for _ in workers]
        self._outcomes: dict[int, Outcome] = {}
        for worker, job in zip(workers, jobs, strict=True):
            worker.connection.send(job)

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers]

    def signal(self, rank: int, number: int) -> int:
        """Sends a signal to a rank; returns the monotonic time in ns just before."""
        before = time.monotonic_ns()
        self._workers[rank].signal(number)
        return before

    def await_state(self, rank: int, state: str) -> None:
        """Waits until the rank's main thread is in a scheduler state ("S": it sleeps, "T": it is stopped) and stays."""
        seen = 0
        while seen < _STEADY:
            if time.monotonic() > self._deadline:
                raise self._failure()
            seen = seen + 1 if self._workers[rank].state() == state else 0
            self._collect(min(self._deadline, time.monotonic() + _LOOK_S))

    def told(self, rank: int) -> Any:
        """The next message that the rank gave to `context().tell`."""
        while not self._told[rank]:
            if rank in self._outcomes or not self._collect(self._deadline):
                raise self._failure()
        return self._told[rank].popleft()

    def send(self, rank: int, message: Any) -> None:
        """Hands a message to the rank: `context().hear()` waits for it."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # dead: `answer` says so
            self._workers[rank].connection.send(message)

    def answer(self, rank: int, timeout: float) -> Any:
        """The next message that the rank gave to `context().tell`, or the `Outcome` that came instead of it."""
        deadline = min(self._deadline, time.monotonic() + timeout)
        while not self._told[rank] and rank not in self._outcomes:
            if not self._collect(deadline):
                raise self._failure()
        return self._told[rank].popleft() if self._told[rank] else self._outcomes[rank]

    def heard(self, rank: int) -> list[Any]:
        """All messages that have come from the rank so far and that `told` has not taken. Does not wait."""
        return list(self._told[rank])

    def finish(self, *, died: Collection[int] = ()) -> list[Any]:
        """The values that all ranks returned, by rank. Ranks in `died` must die, and their value is `Died`."""
        deadline = self._deadline
        while len(self._outcomes) < len(self._workers) and self._collect(deadline):
            if any(not self._expected(rank, died) for rank in self._outcomes):
                deadline = min(deadline, time.monotonic() + _GRACE_S)
        if len(self._outcomes) < len(self._workers) or any(not self._expected(rank, died) for rank in self._outcomes):
            raise self._failure()
        return [outcome.value if isinstance(outcome, Ok) else outcome for _, outcome in sorted(self._outcomes.items())]

    def _expected(self, rank: int, died: Collection[int]) -> bool:
        return isinstance(self._outcomes[rank], Died if rank in died else Ok)

    def _collect(self, deadline: float) -> bool:
        """Takes in what has come from the ranks. False when the deadline has passed."""
        pending = [rank for rank in range(len(self._workers)) if rank not in self._outcomes]
        ready = wait([self._workers[rank].connection for rank in pending], max(0.0, deadline - time.monotonic()))
        for rank in pending:
            if self._workers[rank].connection in ready:
                self._receive(rank)
        return bool(ready)

    def _receive(self, rank: int) -> None:
        worker = self._workers[rank]
        try:
            kind, value = worker.connection.recv()
        except (EOFError, OSError):
            worker.process.join(10.0)
            self._outcomes[rank] = Died(worker.process.exitcode or 0, worker.log())
            return
        if kind == "told":
            self._told[rank].append(value)
        else:
            self._outcomes[rank] = Ok(value) if kind == "ok" else Failed(value + _indent(worker.log()))

    def _failure(self) -> RanksError:
        for rank, worker in enumerate(self._workers):
            if rank not in self._outcomes:
                self._outcomes[rank] = Stuck(worker.stacks())
        return RanksError(self._target, self._outcomes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store_path.unlink(missing_ok=True)
        healthy = [w for r, w in enumerate(self._workers) if self._reuse and isinstance(self._outcomes.get(r), Ok)]
        self._pool.give_back(healthy if kind is None else [])
        self._pool.discard([w for w in self._workers if kind is not None or w not in healthy])


class Ranks:
    """Starts runs. One per test session; every run gets a process group of its own."""

    def __init__(self, pool: Pool, backend: str) -> None:
        self.backend = backend
        self._pool = pool
        self._serial = itertools.count()

    def start(
        self,
        check: Callable[..., Any],
        *args: Any,
        world: int,
        timeout: float = 60.0,
        group_timeout: float = 30.0,
        init: bool = True,
        fresh: bool = False,
        backend: str | None = None,
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> Run:
        """Calls `check(rank, world, *args, **kwargs)` on `world` ranks.

        timeout: s until the run is given up and its workers are killed. group_timeout: s, of the process group.
        init: make the default group first. fresh: processes that ran nothing before and run nothing later; an `env`
        implies it, since much of the environment is read once.
        """
        store_path = self._pool.folder / f"store-{next(self._serial)}"
        jobs = [
            Job(
                target=reference_to(check),
                args=args,
                kwargs=kwargs,
                rank=rank,
                world=world,
                backend=backend or self.backend,
                store_path=str(store_path),
                group_timeout=group_timeout,
                init=init,
                env=dict(env or {}),
            )
            for rank in range(world)
        ]
        throw_away = fresh or bool(env)
        return Run(self._pool, self._pool.take(world, throw_away), jobs, timeout=timeout, reuse=not throw_away)

    def run(self, check: Callable[..., Any], *args: Any, world: int, **options: Any) -> list[Any]:
        """`start` and `finish`: the values returned by all ranks."""
        with self.start(check, *args, world=world, **options) as run:
            return run.finish()


def _indent(log: str) -> str:
    return "\n    its output:\n" + "\n".join(f"    {line}" for line in log.splitlines()) if log else ""
