"""One connection of a link: what all kinds of it offer."""

from __future__ import annotations

from typing import Protocol

from pycomms.ft.core.messages import Evict


class LineEnded(Exception):
    """The connection is gone, or was never there. Another try may help."""


class LineRefused(LineEnded):
    """The other side has said that it does not want this process, and why."""


class Line(Protocol):
    def send(self, envelope: bytes) -> None:
        """By any thread, one at a time. Raises LineEnded."""
        ...

    def receive(self) -> list[bytes]:
        """By the thread of the link: waits for one envelope or more. Raises LineEnded, also when it is closed."""
        ...

    def close(self) -> None:
        """By any thread. Says what was sent, within a second, and ends :meth:`receive`."""
        ...

    def drop(self) -> None:
        """By the thread of the link, when it reads no more: ends it now."""
        ...

    def forked(self) -> None:
        """In a process that was forked off: lets go of it without a word to the other side."""
        ...


class Dialer(Protocol):
    def dial(self) -> Line:
        """A new connection that is ready for events. Raises LineEnded, in the time that the timeouts allow."""
        ...

    def interrupt(self) -> None:
        """Ends a :meth:`dial` that goes on in another thread."""
        ...

    def obey(self, evict: Evict) -> None:
        """The coordinator wants this process ended, and tells it, as no agent is there."""
        ...
