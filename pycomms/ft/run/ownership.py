"""Which of several agents runs the coordinator, and which run those that stand by."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import suppress

from pycomms.ft.run.options import Meeting


class Ownership:
    """Kept for as long as the agent lives; the kernel gives it back whatever happens to the agent.

    Attributes:
        held: the number of the address at which this host runs a coordinator; 0 is the one that begins the job. None:
            it runs none.
    """

    def __init__(self, meeting: Meeting, addresses: Sequence[tuple[str, int]]) -> None:
        """Raises ValueError where this host has to run it, but another agent of this machine does."""
        self._socket: socket.socket | None = None
        self.held: int | None = None
        if meeting.owner is False:
            return
        for number, (host, port) in enumerate(addresses):
            if (meeting.owner or is_here(host)) and self._take(port):
                self.held = number
                return
            if meeting.owner:
                raise ValueError(
                    f"another job of this machine has its coordinator at port {port}: choose another --rdzv-endpoint"
                )

    def _take(self, port: int) -> bool:
        name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            name.bind(f"\0pycomms-coordinator-{port}")
        except OSError:
            name.close()
            return False
        self._socket = name
        return True

    def release(self) -> None:
        if self._socket is not None:
            self._socket.close()


def is_here(host: str) -> bool:
    """Whether an address or a name is one of this machine: then it can be bound to."""
    with suppress(OSError):
        for family, kind, protocol, _, address in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with suppress(OSError), socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
                return True
    return False


def address_towards(host: str, port: int) -> str:
    """The address by which this machine reaches another one, and by which it is reached from there."""
    with suppress(OSError):
        for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM):
            with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(address)  # sends nothing
                found: str = probe.getsockname()[0]
                return found
    return socket.gethostname()
