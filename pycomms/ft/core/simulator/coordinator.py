"""The service around the quorum: a timer, a log, and a connection per host."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pycomms.ft.core.messages import Died, EpochId, Event, Form, MemberId
from pycomms.ft.core.quorum import Quorum
from pycomms.ft.core.rule import Outgoing
from pycomms.ft.core.simulator.checks import ViolationError
from pycomms.ft.core.simulator.network import Connection

if TYPE_CHECKING:
    from pycomms.ft.core.simulator.world import World


class Coordinator:
    def __init__(self, world: World, log: list[EpochId], boot: int) -> None:
        self.is_up = True
        self.seconds = 0.0  # of this machine's processor, in the quorum
        self.log = log
        self.quorum = Quorum(world.rule, boot, resumed=bool(log))
        self._world = world
        self._connections: dict[str, Connection] = {}
        self._dead: set[MemberId] = set()
        self._newest: EpochId | None = None
        self._tick_at: float | None = None

    def accept(self, host: str, connection: Connection) -> None:
        self._connections[host] = connection

    def forget(self, host: str, connection: Connection, noticed_after: float | None) -> None:
        if self._connections.get(host) is connection:
            del self._connections[host]
        if noticed_after is not None:
            self._world.loop.after(noticed_after, lambda: self._lost(host))

    def receive(self, events: list[Event]) -> None:
        if not self.is_up:
            return
        began = time.process_time()
        for event in events:
            if isinstance(event, Died):
                self._dead.add(event.member)
            out = self.quorum.apply(self._world.loop.now, event)
            if out:
                self.seconds += time.process_time() - began
                self._send(out)
                began = time.process_time()
        self.seconds += time.process_time() - began
        self._schedule()

    def stop(self) -> None:
        self.is_up = False
        for host in list(self._connections):
            self._world.hosts[host].disconnect(None)

    def _lost(self, host: str) -> None:
        if self.is_up and host not in self._connections:
            self._send(self.quorum.host_lost(self._world.loop.now, host, "its connection has ended"))
            self._schedule()

    def _send(self, out: list[Outgoing]) -> None:
        for form in {id(one.notice): one.notice for one in out if isinstance(one.notice, Form)}.values():
            if self._newest is None or form.epoch > self._newest:
                self._announced(form)
            elif form.epoch < self._newest:
                raise ViolationError(f"a coordinator announced epoch {form.epoch} after {self._newest}")
        self._world.count_notices(out)
        for one in out:
            host = one.to if isinstance(one.to, str) else one.to.host
            connection = self._connections.get(host)
            if connection is not None:
                connection.send_down(one.to, one.notice)

    def _announced(self, form: Form) -> None:
        self._world.observer.announced(form, self._dead)
        self._newest = form.epoch
        self.log.append(form.epoch)

    def _schedule(self) -> None:
        deadline = self.quorum.next_deadline()
        if deadline is None or (self._tick_at is not None and self._tick_at <= deadline):
            return
        self._tick_at = max(deadline, self._world.loop.now)
        self._world.loop.at(self._tick_at, self._tick)

    def _tick(self) -> None:
        self._tick_at = None
        if self.is_up:
            began = time.process_time()
            out = self.quorum.tick(self._world.loop.now)
            self.seconds += time.process_time() - began
            self._send(out)
            self._schedule()
