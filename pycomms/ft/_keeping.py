"""When a session writes checkpoints, and when it loads one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from pycomms.ft._state import Stateful

if TYPE_CHECKING:
    from pycomms.ft.checkpoints import Checkpoints
    from pycomms.ft.replica import Replica


class Keeping:
    """A session's checkpoints, if it has any."""

    def __init__(self, checkpoints: Checkpoints | None, parts: Mapping[str, Stateful], replica: Replica | None) -> None:
        self._checkpoints = checkpoints
        self._parts = parts
        self._replica = replica
        self._found: int | None = None

    def look(self) -> int | None:
        """The step of the newest checkpoint: announced now, and loaded only if nobody has more."""
        self._found = self._checkpoints.newest() if self._checkpoints is not None else None
        return self._found

    def load(self) -> None:
        """What `look` has found, the first time. Raises StateMismatch."""
        if self._checkpoints is not None and self._found is not None:
            self._checkpoints.load(self._found, self._parts)
        self._found = None

    def forget(self) -> None:
        """This member has a newer state from others."""
        self._found = None

    def committed(self, step: int, rank: int) -> None:
        """Member 0 writes, or the first replica of the group, each its shard."""
        part = None if self._replica is None else self._replica.part
        writers = 1 if part is None else part.of
        if self._checkpoints is not None and rank < writers and step % self._checkpoints.every == 0:
            self._checkpoints.save(step, self._parts, part)

    def close(self, timeout: timedelta) -> None:
        if self._checkpoints is not None:
            self._checkpoints.wait(timeout)
