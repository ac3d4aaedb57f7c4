"""The slots of this host, and the process that each has now."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import timedelta

from pycomms.ft.run.logs import Destinations
from pycomms.ft.run.process import Ending
from pycomms.ft.run.spawning import Child


@dataclass(kw_only=True)
class Worker:
    """One process of a slot, alive or not.

    Attributes:
        announced, settled, left: what it has told the coordinator: that it is there, that it trains, that it ends.
        refused: the coordinator has told it that the job has ended.
        stopping: the agent has told it to end.
        cause: why the agent has killed it, where that was nobody else's wish.
        told_dead: the coordinator was told of its end, which was certain and not complete.
        ended: when its end became certain, in seconds since 1970; 0: it lives.
        gone: it has ended, and all that it had written is with the writer.
    """

    rank: int
    local_rank: int
    incarnation: int
    nonce: str
    child: Child
    destinations: Destinations
    from_spare: bool
    announced: bool = False
    settled: bool = False
    left: bool = False
    refused: str = ""
    stopping: bool = False
    cause: str = ""
    told_dead: bool = False
    started: float = field(default_factory=time.monotonic)
    ending: Ending | None = None
    ended: float = 0.0
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def alive(self) -> bool:
        return self.ending is None

    @property
    def age(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self.started)


@dataclass(kw_only=True)
class Slot:
    """A place for one worker.

    Attributes:
        incarnations: processes that it has had.
        restarts: of this round.
        failures: processes in a row that have ended before they trained.
        done, vacant: it needs no process any more; because its worker has finished, or because it was given up.
        due: a process is to be started after a pause.
    """

    local_rank: int
    worker: Worker | None = None
    incarnations: int = 0
    restarts: int = 0
    failures: int = 0
    done: bool = False
    vacant: bool = False
    due: bool = False

    def begin_round(self) -> None:
        self.worker = None
        self.restarts = self.failures = 0
        self.done = self.vacant = self.due = False

    @property
    def living(self) -> Worker | None:
        return self.worker if self.worker is not None and self.worker.alive else None
