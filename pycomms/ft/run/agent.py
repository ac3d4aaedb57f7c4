"""The agent of one host: starts its workers, does what follows when one ends, and tells the other hosts.

For the event loop. What follows is decided in policy.py for one worker and in core/launch.py for the job; here it is
done. Must not know torch.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from pycomms.ft.core.launch import HostReport, JobState, Phase, Stand
from pycomms.ft.core.messages import (
    DONE,
    Announce,
    Died,
    Evict,
    Leaving,
    MemberId,
    Ready,
    Refused,
    Settled,
    Verdict,
)
from pycomms.ft.run import policy
from pycomms.ft.run.last_words import last_words
from pycomms.ft.run.process import Ending
from pycomms.ft.run.relay import FromWorker
from pycomms.ft.run.words import Voice
from pycomms.ft.run.worker import Slot, Worker
from pycomms.ft.run.workers import Workers

EXIT_DONE, EXIT_FAILED, EXIT_SIGNAL = 0, 1, 128

_SPARES_AFTER = 60.0
"""Seconds from the start of the workers to that of the spares, unless they train before: both import torch."""
_STATE_LOST = "no worker has the state of the training any more, so it goes on from what the program loads"


@dataclass(kw_only=True)
class History:
    """What the summary at the end tells.

    Attributes:
        deaths: of workers that nobody had told to end, in their order.
        before: how many of them were before the last time that all were started.
        replaced: processes that were started in a dead one's place; by_spares: of these, spares.
    """

    deaths: list[Worker] = field(default_factory=list)
    before: int = 0
    replaced: int = 0
    by_spares: int = 0
    evicted: int = 0


class Agent:
    """``tell`` sends a report to whoever keeps the job's state, `job_is` takes the answers; ``up`` sends an event or,
    as bytes, what a worker has said to the coordinator; ``renew`` makes it forget the workers of earlier rounds."""

    def __init__(
        self,
        report: HostReport,
        limits: policy.Limits,
        *,
        tell: Callable[[HostReport], None],
        up: Callable[[Died | bytes], None],
        renew: Callable[[int], None],
        fresh_port: Callable[[], int],
        voice: Voice,
        shutdown: timedelta,
        stopped: timedelta,
    ) -> None:
        self._report = report
        self._limits = limits
        self._tell, self._up, self._renew, self._fresh_port = tell, up, renew, fresh_port
        self._voice = voice
        self._shutdown = shutdown
        self._stopped = stopped.total_seconds()
        self._job = JobState(name="")
        self._started_round = -1
        self._ending = False
        self._ends: dict[tuple[MemberId, type], Died | bytes] = {}  # what was told of each, in this round
        self._tasks: set[asyncio.Task[None]] = set()
        self._finished: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.workers: Workers
        self.history = History()
        self.reason = ""

    async def run(self, workers: Workers) -> int:
        """Returns the exit code when no worker lives any more."""
        self.workers = workers
        self._tell(self._report)
        try:
            return await self._finished
        finally:
            await workers.stop(signal.SIGTERM, self._shutdown)

    @property
    def job(self) -> JobState:
        return self._job

    @property
    def report(self) -> HostReport:
        """With all that is needed to teach one who knows nothing."""
        return replace(self._report, known=self._job if self._job.places or self._job.round else None)

    # The job's state has changed.

    def job_is(self, job: JobState) -> None:
        if self._ending or self._finished.done():
            return
        before, self._job = self._job, job
        if job.phase is Phase.FAILED:
            self._end(EXIT_FAILED, job.reason)
        elif job.phase is Phase.DONE:
            self._end(EXIT_DONE, job.reason)
        elif job.round > before.round and self._started_round >= 0:
            self._spawn_task(self._restart(job, before.sessions or self._report.sessions))
        elif job.phase is Phase.RUNNING and job.has(self._report.host) and self._started_round < job.round:
            if self._report.round == job.round:
                self._start_all()
        elif job.round > self._report.round and self._started_round < 0:
            self._change(round=job.round)  # this host has only waited so far
        if policy.over(job) and not policy.over(before):
            self._spawn_task(self._end_newcomers())

    def _start_all(self) -> None:
        self._started_round = self._job.round
        self._ends.clear()
        self.history.before = len(self.history.deaths)
        for slot in self.workers.slots:
            slot.begin_round()
            self._start(slot)
        asyncio.get_running_loop().call_later(_SPARES_AFTER, self.workers.fill_spares)
        self._change(stand=Stand.RUNNING, again="", sessions=False, training=False, finished=False)

    async def _restart(self, job: JobState, had_sessions: bool) -> None:
        lost = f"; {_STATE_LOST}" if had_sessions else ""
        self._voice.say(f"{job.reason}: all workers are started again (round {job.round}){lost}")
        await self.workers.stop(signal.SIGTERM, self._shutdown)
        if had_sessions:
            self._renew(job.round)
        self._change(
            stand=Stand.READY,
            round=job.round,
            again="",
            port=self._fresh_port(),
            sessions=False,
            training=False,
            finished=False,
        )

    async def _end_newcomers(self) -> None:
        """The training is over: who has only just been started would begin it anew, alone."""
        late = [worker for worker in self.workers.living() if not worker.settled]
        await self.workers.kill(late)
        for slot in self.workers.slots:
            if slot.worker in late or slot.due:
                slot.done, slot.due = True, False
        self._look()

    # A worker has ended.

    def ended(self, slot: Slot, worker: Worker) -> None:
        assert worker.ending is not None
        if worker.announced:
            self._tell_death(Died(member=MemberId(self._report.host, worker.nonce), how=_how(worker, worker.ending)))
        slot.failures = 0 if worker.settled else slot.failures + 1
        if worker.stopping or self._ending:
            return
        if worker.ending.code != 0:
            self.history.deaths.append(worker)
        elif worker.left:
            self._report = replace(self._report, finished=True)
        self._look()
        if self._finished.done():
            return
        job = self._locally()
        end = policy.End(
            rank=worker.rank,
            ending=worker.ending,
            announced=worker.announced,
            left=worker.left,
            refused=worker.refused,
            restarts=slot.restarts,
            failures=slot.failures,
        )
        self._do(slot, policy.after(end, job, self._limits, self._others(slot)))

    def _do(self, slot: Slot, decision: policy.Decision) -> None:
        match decision:
            case policy.Done(reason=reason):
                slot.done = True
                if reason:
                    self._voice.say(reason)
            case policy.Respawn(pause=pause):
                slot.restarts += 1
                slot.due = True
                self._spawn_task(self._respawn(slot, pause.total_seconds(), self._job.round))
            case policy.Vacant(reason=reason):
                slot.vacant = True
                self._voice.say(reason)
            case policy.Again(reason=reason):
                self._change(again=self._report.again or reason)
                return
            case policy.Fail(reason=reason):
                self._change(stand=Stand.FAILED, reason=reason)
                return
        self._look()

    async def _respawn(self, slot: Slot, pause: float, round: int) -> None:
        if pause:
            await asyncio.sleep(pause)
        if self._ending or not slot.due or self._job.round != round:
            return
        before = slot.worker
        worker = self._start(slot)
        if worker is None or before is None or before.ending is None:
            return
        self.history.replaced += 1
        self.history.by_spares += worker.from_spare
        how = "a spare takes its place" if worker.from_spare else "started again"
        self._voice.say(
            f"rank {before.rank} has ended with {before.ending}: {how} (restart {slot.restarts} of "
            f"{self._limits.max_restarts})"
        )

    def _start(self, slot: Slot) -> Worker | None:
        try:
            return self.workers.start(slot, self._job)
        except (OSError, ValueError) as error:
            self._change(stand=Stand.FAILED, reason=f"local rank {slot.local_rank} cannot be started: {error}")
            return None

    def _others(self, slot: Slot) -> int:
        """Slots of the job that are not empty for good, as far as this host knows, without this one."""
        mine = sum(not one.vacant for one in self.workers.slots if one is not slot)
        return self._job.world_size - len(self.workers.slots) + mine

    def _locally(self) -> JobState:
        """The job's state with what has just happened here."""
        return replace(
            self._job,
            sessions=self._job.sessions or self._report.sessions,
            finished=self._job.finished or self._report.finished,
            # Nobody else could train; on several hosts what was told last has to do, and is put right later.
            training=self._report.training if len(self._job.places) == 1 else self._job.training,
        )

    # Workers and coordinator.

    def heard(self, event: FromWorker, data: bytes) -> None:
        """A worker has said this to the coordinator."""
        worker = self.workers.of(event.member.nonce)
        if worker is not None:
            worker.announced = worker.announced or isinstance(event, Announce)
            worker.settled = worker.settled or isinstance(event, Settled)
            worker.left = worker.left or (isinstance(event, Leaving) and event.reason == DONE)
            if isinstance(event, Leaving):
                self._ends[event.member, Leaving] = data
            self._look()
            if isinstance(event, Settled) and all(one.settled for one in self.workers.living()):
                self.workers.fill_spares()
        if isinstance(event, Ready):
            self._look_at(event.suspects)
        self._up(data)

    def _look_at(self, suspects: Iterable[MemberId]) -> None:
        """Those who wait for a member hear of its death as soon as it is certain, long before it is complete."""
        for suspect in suspects:
            worker = self.workers.of(suspect.nonce)
            if worker is None or worker.told_dead:
                continue
            ending = worker.child.process.fate()
            if ending is not None:
                worker.told_dead = True
                worker.ended = time.time()
                self._tell_death(Died(member=suspect, how=_how(worker, ending)))

    def _tell_death(self, died: Died) -> None:
        self._ends[died.member, Died] = died
        self._up(died)

    def tell_ends_again(self) -> None:
        """To a coordinator that may be another one than those that were told: nobody else knows of these."""
        for said in self._ends.values():
            self._up(said)

    def look_for_stopped(self) -> None:
        """To be called at SIGCHLD. Who is stopped holds up the others, who can go on without it."""
        for worker in self.workers.living():
            if worker.announced and worker.child.process.was_stopped():
                asyncio.get_running_loop().call_later(self._stopped, self._end_if_stopped, worker)

    def _end_if_stopped(self, worker: Worker) -> None:
        if worker.alive and not worker.stopping and worker.child.process.is_stopped():
            worker.cause = f"stopped by a signal for {1000 * self._stopped:.0f} ms"
            self._voice.say(f"rank {worker.rank} is ended: {worker.cause}")
            self.history.evicted += 1
            worker.child.process.kill()

    def told(self, notice: Evict | Refused) -> None:
        """The coordinator says this to this host, or to one of its workers."""
        worker = self.workers.of(notice.member.nonce)
        if worker is None:
            return
        if isinstance(notice, Evict):
            self.history.evicted += 1
            self._voice.say(f"rank {worker.rank} is ended: {notice.reason}")
            worker.child.process.kill()
        elif notice.verdict is Verdict.ENDED:
            worker.refused = notice.reason

    def fail(self, reason: str) -> None:
        """This host cannot go on."""
        self._end(EXIT_FAILED, reason)

    @property
    def is_waiting_to_start(self) -> bool:
        return self._started_round < 0

    @property
    def is_done(self) -> bool:
        return self._report.stand is Stand.DONE

    def leave_alone(self, reason: str) -> None:
        """This host has done its part, and will not hear of the others any more."""
        self._voice.say(reason)
        self._end(EXIT_DONE, reason)

    # What this host tells.

    def _look(self) -> None:
        """Tells what can be seen of the slots, where it is not what was told last."""
        slots = self.workers.slots
        living = list(self.workers.living())
        done = self._report.stand is Stand.RUNNING and all(slot.done or slot.vacant for slot in slots)
        self._change(
            sessions=self._report.sessions or any(worker.announced for worker in living),
            training=any(worker.settled for worker in living),
            stand=Stand.DONE if done else self._report.stand,
        )

    def _change(self, **what: Any) -> None:
        report = replace(self._report, **what)
        if report != self._report:
            self._report = report
            self._tell(report)

    # The end.

    def interrupt(self, number: signal.Signals) -> None:
        """A signal: the workers get it too, and time to end. The second time they are killed."""
        if self._ending:
            self._spawn_task(self.workers.kill())
            return
        self._voice.say(f"{number.name}: the workers are told to end")
        self._ending = True
        self._spawn_task(self._leave(number))

    async def _leave(self, number: signal.Signals) -> None:
        await self.workers.stop(number, self._shutdown)
        self._change(stand=Stand.LEFT, reason=number.name)
        self._end(EXIT_SIGNAL + number, number.name)

    def _end(self, code: int, reason: str) -> None:
        self._ending = True
        if not self._finished.done():
            self.reason = reason
            self._finished.set_result(code)

    def _spawn_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        with suppress(asyncio.CancelledError):
            error = task.exception()
            if error is not None and not self._finished.done():
                self._finished.set_exception(error)


def _how(worker: Worker, ending: Ending) -> str:
    """With the last words of one that has ended by itself: whom a signal ends has no time for any."""
    if worker.cause:
        return f"{worker.cause}, then {ending}"
    words = last_words(worker.child.stderr.tail) if ending.signal in (0, signal.SIGABRT) else ""
    return f"{ending}: {words}" if words else str(ending)
