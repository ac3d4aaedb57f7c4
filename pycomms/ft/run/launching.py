"""Who keeps the state of the job: on one host, the agent itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pycomms.ft.core.launch import HostReport, JobState, Launch


class LocalLaunch:
    """For a job of one host. Answers from the loop, never within the call. Needs no clock: nobody is waited for."""

    def __init__(self, name: str, answer: Callable[[JobState], None]) -> None:
        self._launch = Launch(name)
        self._answer = answer

    def tell(self, report: HostReport) -> None:
        loop = asyncio.get_running_loop()
        if self._launch.report(loop.time(), report):
            loop.call_soon(self._answer, self._launch.job)
