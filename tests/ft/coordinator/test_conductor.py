"""When an epoch is told, and when it is in the log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from pycomms.ft.coordinator.conductor import Conductor
from pycomms.ft.coordinator.tally import Tally
from pycomms.ft.core.messages import Announce, EpochId, Form, MemberId, Position, Ready, Settled
from pycomms.ft.core.quorum import Quorum
from pycomms.ft.core.rule import Outgoing

from ._jobs import DEADLINE_S, rule, run

ME = MemberId("north", "me")


class Delivery:
    def __init__(self, done: list[tuple[str, EpochId]]) -> None:
        self._done = done
        self.told = asyncio.Event()

    def deliver(self, outgoing: Iterable[Outgoing]) -> None:
        for one in outgoing:
            if isinstance(one.notice, Form):
                self._done.append(("told", one.notice.epoch))
                self.told.set()


class Log:
    """A disk that has all the time in the world for what comes after the first epoch."""

    def __init__(self, done: list[tuple[str, EpochId]]) -> None:
        self._done = done
        self.has_room, self.is_written = threading.Event(), threading.Event()

    def append(self, epoch: EpochId) -> None:
        if epoch.counter > 1:
            assert self.has_room.wait(DEADLINE_S)
        self._done.append(("written", epoch))
        if epoch.counter > 1:
            self.is_written.set()


def test_only_the_first_epoch_of_a_boot_waits_for_the_log() -> None:
    done: list[tuple[str, EpochId]] = []

    async def train() -> None:
        delivery, log, tally = Delivery(done), Log(done), Tally()
        with ThreadPoolExecutor(1) as executor:
            conductor = Conductor(Quorum(rule(1), boot=7), cast("Any", delivery), tally, cast("Any", log), executor)
            conductor.apply(Announce(member=ME, slot=0, pid=1, handle="h", position=Position()))
            await asyncio.wait_for(delivery.told.wait(), DEADLINE_S)
            conductor.apply(Settled(member=ME, epoch=EpochId(7, 1), seconds=0.0))
            conductor.apply(Ready(member=ME, epoch=EpochId(7, 1), handle="h", position=Position()))
            assert done == [("written", EpochId(7, 1)), ("told", EpochId(7, 1)), ("told", EpochId(7, 2))]
            log.has_room.set()
            assert await asyncio.to_thread(log.is_written.wait, DEADLINE_S)
            await conductor.stop()
        assert tally.errors == 0

    run(train())
    assert done[-1] == ("written", EpochId(7, 2))
