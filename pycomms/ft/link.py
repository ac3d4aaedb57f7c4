"""A worker's way to the coordinator: through the agent of its host, or by itself where there is none.

A link outlives its connections. Whoever has it says what has happened, and hears what the coordinator wants; when the
agent or the coordinator goes away and comes back, the link connects and announces the member again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from pycomms.ft._steady_link import LinkClosed, LinkRefused, SteadyLink
from pycomms.ft.core.messages import Announce, Event, MemberId, Notice
from pycomms.ft.core.timeouts import Timeouts

__all__ = ["Link", "LinkClosed", "LinkRefused", "Told", "connect"]


class Link(Protocol):
    """Each method may be called by any thread."""

    def send(self, event: Event) -> None:
        """Says it now, or as soon as there is a connection.

        A connection may be lost with what was said last. So the link says the last Ready or Settled again when it has
        connected again.

        Raises:
            LinkClosed: the link is closed.
            LinkRefused: the coordinator does not want this process.
            WireError: the event holds something that cannot be said.
        """
        ...

    def receive(self, timeout: timedelta) -> Notice | None:
        """The next notice; None: there was none in that time. Raises as :meth:`send` does."""
        ...

    def on_notice(self, callback: Callable[[Notice], None]) -> None:
        """From here on notices go to the callback, on the thread of the link, and not to :meth:`receive`.

        It has to be quick and must not raise. To be set before the member announces itself.
        """
        ...

    def on_reconnect(self, announce: Callable[[], Announce]) -> None:
        """What to announce when the coordinator has to be told again: with the member's epoch and its seats.

        Called on the thread of the link, at any time after the member has announced itself for the first time. The
        link leaves the seats out unless the coordinator asks for them.
        """
        ...

    def close(self) -> None:
        """Ends it, after what was said. Within a second or so; does nothing the second time."""
        ...


class Told(Protocol):
    """What the environment says: see pycomms._config.Membership."""

    @property
    def agent(self) -> str: ...
    @property
    def coordinator(self) -> str: ...
    @property
    def token_file(self) -> str: ...
    @property
    def tls_ca(self) -> str: ...
    @property
    def tls_cert(self) -> str: ...
    @property
    def tls_key(self) -> str: ...


def connect(told: Told, member: MemberId, timeouts: Timeouts) -> Link:
    """A link for this member. Returns at once: a thread named ``pycomms-link`` connects and reads.

    A process that was forked off has no link: it is closed there, and says so.

    Args:
        member: where there is no agent its host must be of this process alone.

    Raises:
        ValueError: neither an agent nor a coordinator is told, or the files of the token or of TLS make no sense.
        OSError: there is no token's file.
    """
    if told.agent:
        from pycomms.ft._unix_line import UnixDialer

        return SteadyLink(UnixDialer(told.agent, member, _instance(), timeouts), member, timeouts)
    if told.coordinator:
        from pycomms.ft._grpc_line import GrpcDialer
        from pycomms.ft.coordinator.auth import read_token
        from pycomms.ft.coordinator.tls import VARIABLES, tls_of

        if not told.token_file:
            raise ValueError(
                "PYCOMMS_JOB_TOKEN_FILE is not set, expected the file of the token of the coordinator's job"
            )
        token = read_token(Path(told.token_file))
        tls = tls_of(told.tls_ca, told.tls_cert, told.tls_key, VARIABLES)
        return SteadyLink(GrpcDialer(told.coordinator, token, tls, member, _instance(), timeouts), member, timeouts)
    raise ValueError("neither PYCOMMS_AGENT nor PYCOMMS_COORDINATOR is set, expected one of them")


def _instance() -> str:
    return secrets.token_hex(8)
