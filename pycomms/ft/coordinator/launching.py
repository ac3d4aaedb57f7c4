"""The coordinator as the keeper of the job's state where several hosts start their workers together: what they report,
and what they are told. Decides nothing; for the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from pycomms.ft.core.launch import HostReport, JobState, Launch

_TICK = 0.1
_COME_WITHIN = 2


class Launching:
    """``tell`` sends the job's state to a host that is connected; ``renew`` is called when a round after the first
    begins, at a moment when no worker of an earlier one lives."""

    def __init__(
        self,
        name: str,
        silence: timedelta,
        *,
        stands_by: bool = False,
        tell: Callable[[str, JobState], None],
        renew: Callable[[], None],
    ) -> None:
        """name: of the job, where the hosts give it none. silence: after which a host that is not connected is lost.
        stands_by: as in `Launch`."""
        self._launch = Launch(name, stands_by=stands_by)
        self._silence = silence.total_seconds()
        self._tell, self._renew = tell, renew
        self._connected: dict[str, None] = {}
        self._missing: dict[str, float] = {}  # since when
        self._round = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def job(self) -> JobState:
        return self._launch.job

    def heard(self, report: HostReport) -> None:
        """A host has reported. The first time on a connection it is told in any case."""
        new = report.host not in self._connected
        self._connected[report.host] = None
        self._missing.pop(report.host, None)
        blank = self.job == JobState(name=self.job.name)
        changed = self._launch.report(self._loop.time(), report)
        if blank and report.known is not None:
            self._round = self.job.round  # learned: this round's workers are those whom the members speak for
            # They come when they notice that this coordinator is there.
            self._missing |= dict.fromkeys(self._launch.expected, self._loop.time() + _COME_WITHIN * self._silence)
        if changed:
            self._told()
        elif new:
            self._tell(report.host, self.job)
        if self._timer is None:
            self._tick()

    def disconnected(self, host: str) -> None:
        """It may come back; then it reports again, and is told again."""
        if host in self._connected:
            del self._connected[host]
            self._missing[host] = self._loop.time()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        """From the first report on: a job whose hosts do not start together costs nothing."""
        now = self._loop.time()
        changed = self._launch.tick(now)
        for host in [host for host, since in self._missing.items() if now - since > self._silence]:
            del self._missing[host]
            changed = self._launch.lost(now, host) or changed
        if changed:
            self._told()
        self._timer = self._loop.call_later(_TICK, self._tick)

    def _told(self) -> None:
        if self.job.places and self.job.round > self._round:
            self._round = self.job.round
            self._renew()
        for host in self._connected:
            self._tell(host, self.job)
