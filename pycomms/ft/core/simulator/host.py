"""A host: starts the processes of its slots, sees their ends, and speaks for them to a coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pycomms.ft.core.messages import Beat, Died, Event, Evict, Leaving, MemberId, Notice, Position, Teach
from pycomms.ft.core.simulator.member import Member
from pycomms.ft.core.simulator.network import Connection

if TYPE_CHECKING:
    from pycomms.ft.core.simulator.coordinator import Coordinator
    from pycomms.ft.core.simulator.world import World


class Host:
    def __init__(self, world: World, name: str, slots: range) -> None:
        self.name = name
        self.slots = slots
        self.members: dict[MemberId, Member] = {}
        self.coordinator: Coordinator | None = None  # the one that it tries to reach
        self.is_up = True
        self.cuts = 0  # reasons why it reaches no coordinator
        self._world = world
        self._connection: Connection | None = None
        self._ends: list[Died | Leaving] = []  # told again after a reconnect: the last time may not have come through
        self._is_trying = False
        self._beats = 0

    def start(self) -> None:
        for slot in self.slots:
            self.spawn(slot)
        self.connect()
        self._beat(self._beats)

    def spawn(self, slot: int) -> None:
        world = self._world
        if not self.is_up or world.is_over or any(member.slot == slot for member in self.members.values()):
            return
        position, digest = world.first_state()
        member = Member(world, self, MemberId(self.name, world.fresh_nonce()), slot, position or Position(), digest)
        self.members[member.id] = world.members[member.id] = member
        member.announce()

    def connect(self) -> None:
        """Tries until it works."""
        if self._connection is not None or self._is_trying or not self.is_up:
            return
        self._is_trying = True
        pause = self._world.rng.uniform(0.2, 1) * self._world.settings.timeouts.reconnect.total_seconds()
        self._world.loop.after(pause, self._try)

    def _try(self) -> None:
        self._is_trying = False
        coordinator = self.coordinator
        if self._connection is not None or not self.is_up:
            return
        if self.cuts or coordinator is None or not coordinator.is_up:
            if not self._world.is_over:
                self.connect()
            return
        self._connection = Connection(self._world, self, coordinator)
        coordinator.accept(self.name, self._connection)
        for end in self._ends:
            self.say(end)
        for member in self.members.values():
            member.announce()

    def disconnect(self, noticed_after: float | None) -> None:
        """What is on its way is lost, in both directions.

        Args:
            noticed_after: seconds until the coordinator notices; None: it does not.
        """
        connection, self._connection = self._connection, None
        if connection is None:
            return
        connection.is_open = False
        assert self.coordinator is not None
        self.coordinator.forget(self.name, connection, noticed_after)
        self.connect()

    def say_last(self, end: Died | Leaving) -> None:
        self._ends.append(end)
        self.say(end)

    def say(self, event: Event) -> None:
        if self._connection is not None and self.is_up:
            self._world.count_event(event)
            self._connection.send_up(event)

    def hear(self, to: MemberId | str, notice: Notice) -> None:
        if not self.is_up:
            return
        if isinstance(notice, Teach):
            self._teach(notice)
        elif isinstance(notice, Evict):
            if notice.member in self.members:
                self._world.kill(notice.member, "evicted")
            else:
                self.say(Died(member=notice.member, how="there is no such process"))
        elif isinstance(to, MemberId) and to in self.members:
            self.members[to].hear(notice)

    def lose(self, member: MemberId, how: str) -> None:
        """The process has ended."""
        record = self.members.pop(member)
        self.say_last(Died(member=member, how=how))
        self._world.loop.after(self._world.settings.respawn, lambda: self.spawn(record.slot))

    def crash(self) -> None:
        """All of it ends, and nobody is told."""
        self.disconnect(None if self._world.rng.random() < 0.5 else 0.01)
        self.is_up = False
        self._ends.clear()
        for member in list(self.members):
            del self.members[member]
            self._world.bury(member)

    def boot(self) -> None:
        """After a crash. It does not know what was before."""
        if self.is_up:
            return
        self.is_up = True
        self._beats += 1
        self.start()

    def mend_cut(self) -> None:
        """One of the reasons why it reaches no coordinator is gone."""
        self.cuts = max(0, self.cuts - 1)

    def _teach(self, teach: Teach) -> None:
        told = False
        for member in self.members.values():
            form = member.group.form if member.group else None
            tells = not told and form is not None and form.epoch >= teach.epoch
            told = told or tells
            member.announce(with_seats=tells or (form is not None and not told))

    def _beat(self, beats: int) -> None:
        if self.is_up and beats == self._beats and not self._world.is_over:
            self.say(Beat(host=self.name))
            self._world.loop.after(self._world.settings.timeouts.beat.total_seconds(), lambda: self._beat(beats))
