"""Who is in the next group of torch's gloo with enable_reconfigure: torch leaves that to whoever starts processes."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from pycomms.bench.protocol import Link, LinkError


@dataclass(kw_only=True, eq=False)
class Participant:
    """A process that has reported. handle: known while it stands still. is_done: it has said so."""

    slot: int
    link: Link
    handle: str = ""
    is_in: bool = False
    is_done: bool = False

    def hear(self) -> bool:
        """Takes what it has said. False: it is gone."""
        while not self.link.quiet():
            try:
                told = json.loads(self.link.receive(time.monotonic() + 1.0))
            except LinkError:
                return False
            self.handle = told.get("handle", "")
            self.is_done = self.is_done or "done" in told
        return True

    def say(self, **message: object) -> None:
        with suppress(LinkError):  # it has died, which its launcher finds out by itself
            self.link.send(json.dumps(message))


class Gathering:
    """world: participants that the first group waits for."""

    def __init__(self, world: int) -> None:
        self._world = world
        self._uuids = itertools.count(1)
        self.has_begun = False
        self._has_asked = False

    def look(self, participants: Sequence[Participant]) -> Sequence[Participant]:
        """Names the group once all stand still. participants: who live.

        Returns:
            whom members of the last group wait for, who does not stand still yet.
        """
        standing = [one for one in participants if one.handle]
        if not standing or (not self.has_begun and len(participants) < self._world):
            return ()
        running = [one for one in participants if not one.handle]
        if not running:
            self._name(sorted(participants, key=lambda one: one.slot))
            return ()
        if any(one.is_in for one in standing):
            return running
        if not self._has_asked:  # newcomers alone wait: the others are asked to stop, once
            for one in running:
                one.say(stop=1)
        self._has_asked = True
        return ()

    def _name(self, members: Sequence[Participant]) -> None:
        self.has_begun, self._has_asked = True, False
        uuid = next(self._uuids)
        handles = [one.handle for one in members]
        for one in members:
            one.is_in, one.handle = True, ""
            one.say(uuid=uuid, handles=handles)
