"""What one host is to be told, until its stream has taken it. For the event loop."""

from __future__ import annotations

import asyncio
from collections import deque

from pycomms.ft.core.messages import EpochId

_BYTES = 32 << 20
_MEMBERS = 4096


class Outbox:
    """Attributes:
    instance: the process that speaks for the host.
    told: by nonce, the epoch whose Form went to that member last, over this connection.
    """

    def __init__(self, host: str, instance: str) -> None:
        self.host = host
        self.instance = instance
        self.told: dict[str, EpochId] = {}
        self.why_closed: str | None = None
        self._waiting: deque[tuple[bytes, bytes]] = deque()
        self._bytes = 0
        self._bell = asyncio.Event()

    def put(self, envelope: bytes, to: bytes = b"") -> bool:
        """``to`` goes before it: what is said to many hosts is in memory once.

        False: the host does not read, and has been given up.
        """
        if self.why_closed is not None:
            return False
        if self._bytes + len(envelope) > _BYTES:
            self.close(f"it has left {self._bytes} bytes unread")
            return False
        self._waiting.append((to, envelope))
        self._bytes += len(envelope)
        self._bell.set()
        return True

    async def get(self) -> tuple[bytes, bytes] | None:
        """The next envelope in two parts; waits as long as the stream lasts. None: the outbox was closed."""
        while not self._waiting and self.why_closed is None:
            self._bell.clear()
            await self._bell.wait()
        if self.why_closed is not None:
            return None
        to, envelope = self._waiting.popleft()
        self._bytes -= len(envelope)
        return to, envelope

    def close(self, why: str) -> None:
        self.why_closed = self.why_closed or why
        self._bell.set()

    def has_told(self, nonce: str, epoch: EpochId) -> None:
        if len(self.told) >= _MEMBERS:
            self.told.clear()  # then they are told whole Forms
        self.told[nonce] = epoch
