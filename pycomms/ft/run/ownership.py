"""Which of several agents runs the coordinator."""

from __future__ import annotations

import socket
from contextlib import suppress

from pycomms.ft.run.options import Meeting


class Ownership:
    """Kept for as long as the agent lives; the kernel gives it back whatever happens to the agent."""

    def __init__(self, meeting: Meeting, port: int) -> None:
        """Raises ValueError where this host has to run it, but another agent of this machine does."""
        self._socket: socket.socket | None = None
        self.held = False
        if meeting.owner is False or (meeting.owner is None and not is_here(meeting.host)):
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.bind(f"\0pycomms-coordinator-{port}")
            self.held = True
        except OSError:
            self._socket.close()
            if meeting.owner:
                raise ValueError(
                    f"another job of this machine has its coordinator at port {port}: choose another --rdzv-endpoint"
                ) from None

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
