"""The connection of a host to a coordinator: in order while it lasts, and then what was on its way is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pycomms.ft.core.messages import Event, MemberId, Notice

if TYPE_CHECKING:
    from pycomms.ft.core.simulator.coordinator import Coordinator
    from pycomms.ft.core.simulator.host import Host
    from pycomms.ft.core.simulator.world import World


class Connection:
    def __init__(self, world: World, host: Host, coordinator: Coordinator) -> None:
        self.is_open = True
        self._world = world
        self._host = host
        self._coordinator = coordinator
        self._up: list[Event] = []
        self._down: list[tuple[MemberId | str, Notice]] = []

    def send_up(self, event: Event) -> None:
        self._up.append(event)
        if len(self._up) == 1:
            self._world.loop.after(self._delay(), self._arrive_up)

    def send_down(self, to: MemberId | str, notice: Notice) -> None:
        self._down.append((to, notice))
        if len(self._down) == 1:
            self._world.loop.after(self._delay(), self._arrive_down)

    def _delay(self) -> float:
        return self._world.rng.uniform(0.1, 1) * self._world.settings.message

    def _arrive_up(self) -> None:
        events, self._up = self._up, []
        if self.is_open:
            self._coordinator.receive(events)

    def _arrive_down(self) -> None:
        notices, self._down = self._down, []
        if self.is_open:
            for to, notice in notices:
                self._host.hear(to, notice)
