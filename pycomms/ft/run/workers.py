"""All workers of this host, and the spares: who starts, ends and is ended. Decides nothing; for the event loop."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta

from pycomms.ft.core.launch import JobState
from pycomms.ft.run.environment import Host, Life, worker_environment
from pycomms.ft.run.logs import Logs, prefix_of
from pycomms.ft.run.options import Kind, Options
from pycomms.ft.run.output import Stream
from pycomms.ft.run.process import Ending
from pycomms.ft.run.spawning import STDERR, STDOUT, Spare, command_of, spawn
from pycomms.ft.run.words import Voice
from pycomms.ft.run.worker import Slot, Worker
from pycomms.ft.run.writer import Writer

DRAIN = 1.0
"""Seconds that a dead worker's output may still take: whatever it has left behind may hold its pipe open."""

LAST_WORDS = 0.05
"""Seconds that a dead worker's connection may take to end. It ends with the worker, unless a child of it has it too."""

SPARE_PAUSE = 1.0
"""Seconds until a spare that was taken is replaced: its import must not compete with the recovery."""

SPARE_TRIES = 3
KILLED = 10.0
"""Seconds that SIGKILL may take. A process in the middle of a driver call can take for ever."""


class Workers:
    """``last_words`` waits, up to so many seconds, until all is heard that the worker with a nonce has said; then
    ``ended`` is called; `Worker.gone` is set when its output is complete."""

    def __init__(
        self,
        options: Options,
        host: Host,
        base: Mapping[str, str],
        logs: Logs,
        writer: Writer,
        voice: Voice,
        *,
        last_words: Callable[[str, float], Awaitable[None]],
        ended: Callable[[Slot, Worker], None],
    ) -> None:
        self._options, self._host, self._base = options, host, base
        self._logs, self._writer, self._voice = logs, writer, voice
        self._last_words, self._ended = last_words, ended
        self.slots = [Slot(local_rank=local_rank) for local_rank in range(host.slots)]
        self._by_nonce: dict[str, Worker] = {}
        self._spares: list[Spare] = []
        self._spare_failures = 0
        self._endings: set[asyncio.Task[None]] = set()
        self._closed = False
        self.pids: list[int] = []

    def start(self, slot: Slot, job: JobState) -> Worker:
        """Raises OSError where no process can be made, ValueError for an environment that makes no sense."""
        nonce = secrets.token_hex(8)
        destinations = self._logs.of(slot.local_rank, slot.incarnations)
        life = Life(
            local_rank=slot.local_rank,
            incarnation=slot.incarnations,
            nonce=nonce,
            error_file=str(destinations.error_file),
        )
        environment = worker_environment(self._base, self._host, job, life)
        rank = job.place_of(self._host.name).first_rank + slot.local_rank
        prefix = prefix_of(
            self._options.output.prefix,
            role=self._options.role,
            rank=rank,
            local_rank=slot.local_rank,
            hostname=socket.gethostname(),
        )

        def ended(ending: Ending) -> None:
            self._process_ended(slot, worker, ending)

        spare = self._take_spare()
        if spare is not None:
            child = spare.become(self._options.program, environment, ended)
            child.stdout.assign(destinations.stdout, prefix)
            child.stderr.assign(destinations.stderr, prefix)
        else:
            child = spawn(
                command_of(self._options.program, environment),
                environment,
                Stream(destinations.stdout, self._writer, STDOUT, prefix),
                Stream(destinations.stderr, self._writer, STDERR, prefix),
            )
        worker = Worker(
            rank=rank,
            local_rank=slot.local_rank,
            incarnation=slot.incarnations,
            nonce=nonce,
            child=child,
            destinations=destinations,
            from_spare=spare is not None,
        )
        slot.worker = worker
        slot.incarnations += 1
        slot.due = False
        self._by_nonce[nonce] = worker
        self.pids.append(child.process.pid)
        if spare is None:
            child.process.watch(ended)
        return worker

    def of(self, nonce: str) -> Worker | None:
        """The living worker with this nonce."""
        return self._by_nonce.get(nonce)

    def living(self) -> Iterator[Worker]:
        return (slot.worker for slot in self.slots if slot.worker is not None and slot.worker.alive)

    async def stop(self, number: int, within: timedelta) -> None:
        """Tells all to end, kills those who do not. When it returns none lives."""
        workers = list(self.living())
        for worker in workers:
            worker.stopping = True
            worker.child.process.send(number)
        if not await self._gone(workers, within.total_seconds()):
            await self.kill(workers)

    async def kill(self, workers: list[Worker] | None = None) -> None:
        workers = list(self.living()) if workers is None else workers
        for worker in workers:
            worker.stopping = True
            worker.child.process.kill()
        if not await self._gone(workers, KILLED):
            alive = ", ".join(f"rank {one.rank} (pid {one.child.process.pid})" for one in workers if one.alive)
            self._voice.say(f"still there after SIGKILL, so in the middle of a system call: {alive}")

    async def _gone(self, workers: list[Worker], within: float) -> bool:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(worker.gone.wait() for worker in workers)), within)
        return not any(worker.alive for worker in workers)

    def _process_ended(self, slot: Slot, worker: Worker, ending: Ending) -> None:
        task = asyncio.ensure_future(self._bury(slot, worker, ending))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    async def _bury(self, slot: Slot, worker: Worker, ending: Ending) -> None:
        died = time.time()
        # What it has said before it died comes first: it may have said that it is done.
        await self._last_words(worker.nonce, LAST_WORDS)
        worker.ending = ending
        worker.ended = worker.ended or died  # it may have been known before it was complete
        del self._by_nonce[worker.nonce]
        self._ended(slot, worker)
        await worker.child.drained(DRAIN)
        worker.gone.set()

    # Spares

    def fill_spares(self) -> None:
        """Starts what is missing."""
        if self._closed or self._options.program.kind is Kind.PROGRAM:
            return
        while len(self._spares) < self._options.spares and self._spare_failures < SPARE_TRIES:
            environment = dict(self._base)
            if self._host.slots > 1:
                environment.setdefault("OMP_NUM_THREADS", "1")  # torch reads it when it is imported
            self._spares.append(
                Spare(
                    environment,
                    self._writer,
                    ready=lambda: self._voice.say("a spare is ready"),
                    ended=self._spare_ended,
                )
            )

    def _take_spare(self) -> Spare | None:
        spare = next((one for one in self._spares if one.ready), None)
        if spare is not None:
            self._spares.remove(spare)
            self._spare_failures = 0
            asyncio.get_running_loop().call_later(SPARE_PAUSE, self.fill_spares)
        return spare

    def _spare_ended(self, spare: Spare, ending: Ending) -> None:
        if self._closed or spare not in self._spares:
            return
        self._spares.remove(spare)
        self._spare_failures += 1
        more = "" if self._spare_failures < SPARE_TRIES else "; no more are started"
        self._voice.say(f"a spare has ended with {ending}{more}")
        asyncio.get_running_loop().call_later(SPARE_PAUSE, self.fill_spares)

    async def close(self) -> None:
        """When no worker lives any more: ends the spares, and waits for what was written."""
        self._closed = True
        for spare in self._spares:
            spare.close()
        if self._endings:
            await asyncio.wait(set(self._endings), timeout=2 * DRAIN)
