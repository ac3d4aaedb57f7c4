"""Puts the decisions of the core into effect: gives it the time and the events, and sends what follows, in order.

For the event loop. The first epoch of a boot is in the log before anybody is told of it; what is decided meanwhile
waits behind it. Later ones are told at once: no other coordinator will make epochs of a boot that the log knows.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from concurrent.futures import Executor

from pycomms.ft.coordinator.delivery import Delivery
from pycomms.ft.coordinator.epoch_log import EpochLog
from pycomms.ft.coordinator.tally import Tally
from pycomms.ft.core.messages import EpochId, Event, Form, Notice
from pycomms.ft.core.quorum import Quorum
from pycomms.ft.core.rule import Outgoing
from pycomms.ft.core.view import View

_LOG = logging.getLogger("pycomms.ft")
_LOG_WITHIN = 1.0
"""Seconds that an epoch waits for its log. Its boot is in the log already, so no other coordinator makes the same."""


class Conductor:
    """executor: of one thread, for the log."""

    def __init__(
        self, quorum: Quorum, delivery: Delivery, tally: Tally, log: EpochLog | None, executor: Executor
    ) -> None:
        self._quorum = quorum
        self._delivery = delivery
        self._tally = tally
        self._log = log
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: deque[list[Outgoing]] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._behind: set[asyncio.Task[None]] = set()  # writes what was told already
        self._logged: EpochId | None = None
        self._reason = ""

    def apply(self, event: Event) -> None:
        self._tally.heard(event)
        self._follow(self._quorum.apply(self._now(), event))

    def host_lost(self, host: str, how: str) -> None:
        self._follow(self._quorum.host_lost(self._now(), host, how))

    def renew(self, quorum: Quorum) -> None:
        """From here on this one decides; what the last one has decided and is not sent yet is of no use."""
        self._quorum = quorum
        self._waiting.clear()

    @property
    def boot(self) -> int:
        return self._quorum.boot

    def view(self) -> View:
        return self._quorum.view()

    def now(self) -> float:
        return self._now()

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        writing = {*self._behind, *([self._sender] if self._sender is not None else [])}
        for task in writing:
            task.cancel()
        if writing:
            await asyncio.wait(writing, timeout=_LOG_WITHIN)

    def _now(self) -> float:
        return time.monotonic()

    def _tick(self) -> None:
        self._timer = None
        try:
            self._follow(self._quorum.tick(self._now()))
        except Exception:  # a mistake in one decision must not end the job: it is tried again
            self._tally.errors += 1
            _LOG.exception("pycomms.ft: the coordinator cannot decide")
            self._timer = self._loop.call_later(1.0, self._tick)

    def _follow(self, outgoing: list[Outgoing]) -> None:
        if outgoing:
            self._tally.decided(self._now(), outgoing)
            self._send(outgoing)
        deadline = self._quorum.next_deadline()
        # A timer that is early does no harm, and beats would set a new one each time.
        if deadline is not None and (self._timer is None or deadline < self._timer.when()):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self._tick)

    def _send(self, outgoing: list[Outgoing]) -> None:
        for reason in {_told(one.notice) for one in outgoing} - {""}:
            _LOG.info("pycomms.ft: %s", reason)
        unlogged = self._unlogged(outgoing)
        if self._sender is None and all(self._knows_boot_of(epoch) for epoch in unlogged):
            self._delivery.deliver(outgoing)
            for epoch in unlogged:
                self._write_behind(epoch)
            return
        self._waiting.append(outgoing)
        if self._sender is None:
            self._sender = self._loop.create_task(self._send_waiting())

    async def _send_waiting(self) -> None:
        try:
            while self._waiting:
                outgoing = self._waiting[0]
                for epoch in self._unlogged(outgoing):
                    await self._write(epoch)
                if self._waiting and self._waiting[0] is outgoing:
                    self._delivery.deliver(self._waiting.popleft())
        finally:
            self._sender = None

    def _unlogged(self, outgoing: list[Outgoing]) -> list[EpochId]:
        if self._log is None:
            return []
        epochs = {one.notice.epoch for one in outgoing if isinstance(one.notice, Form)}
        return sorted(epoch for epoch in epochs if self._logged is None or epoch > self._logged)

    def _knows_boot_of(self, epoch: EpochId) -> bool:
        return self._logged is not None and self._logged.boot == epoch.boot

    def _write_behind(self, epoch: EpochId) -> None:
        self._logged = epoch
        task = self._loop.create_task(self._write(epoch))
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)

    async def _write(self, epoch: EpochId) -> None:
        assert self._log is not None
        begin = self._now()
        try:
            # Shielded: the thread cannot be called back, and the next one waits for it.
            written = self._loop.run_in_executor(self._executor, self._log.append, epoch)
            await asyncio.wait_for(asyncio.shield(written), _LOG_WITHIN)
        except (OSError, asyncio.TimeoutError) as error:
            self._tally.errors += 1
            _LOG.warning("pycomms.ft: epoch %s could not be logged: %r", epoch, error)
        self._tally.log_write.add(self._now() - begin)
        self._logged = max(epoch, self._logged or epoch)


def _told(notice: Notice) -> str:
    """One line for the log of those who look after the job."""
    kind = type(notice).__name__.lower()
    epoch = getattr(notice, "epoch", None)
    name = f" {epoch.boot}.{epoch.counter}" if epoch else ""
    reason = getattr(notice, "reason", "")
    return f"{kind}{name}: {reason}" if reason else ""
