"""The socket at which the workers of this host speak to their agent. What they say goes on to the coordinator as it is,
and what it says comes to them as it is; the agent only reads along. For the event loop.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from pycomms.ft.core.messages import Announce, Leaving, Progress, Ready, Settled
from pycomms.ft.wire import AnnounceAgain, Hello, Message, SendWhole, WireError, decode, encode, frame, read_frame

HELLO_WITHIN = 10.0
UNSENT = 16 << 20
"""Bytes that a worker may leave unread; it is cut off then, and connects again when it wakes up."""

FromWorker = Announce | Ready | Settled | Progress | Leaving | SendWhole


class Relay:
    """One per agent.

    ``knows`` says whether a nonce is that of a living worker of this host; ``heard`` gets what a worker has said, and
    the bytes to pass on; ``complain`` gets what is wrong with somebody who has connected.
    """

    def __init__(
        self,
        address: str,
        *,
        knows: Callable[[str], bool],
        heard: Callable[[FromWorker, bytes], None],
        complain: Callable[[str], None],
    ) -> None:
        """address: with an @ in front, as in ``PYCOMMS_AGENT``: a name without a file, which nothing has to remove."""
        self.address = address
        self._knows, self._heard, self._complain = knows, heard, complain
        self._workers: dict[str, asyncio.StreamWriter] = {}
        self._serving: dict[str, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        path = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        self._server = await asyncio.start_unix_server(self._serve, path)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._workers.values():
            writer.transport.abort()

    def down(self, envelope: bytes, to: tuple[str, ...]) -> None:
        """To these workers, as far as they are connected: who is not will announce himself again."""
        framed = frame(envelope)
        for nonce in to:
            writer = self._workers.get(nonce)
            if writer is None:
                continue
            if writer.transport.get_write_buffer_size() > UNSENT:
                writer.transport.abort()
            else:
                writer.write(framed)

    async def last_words(self, nonce: str, within: float) -> None:
        """Until this worker's connection has ended: then all is heard that it has said."""
        serving = self._serving.get(nonce)
        if serving is not None:
            await asyncio.wait([serving], timeout=within)

    def announce_again(self, reason: str, *, with_seats: bool = False) -> None:
        self.down(encode(AnnounceAgain(reason=reason, with_seats=with_seats)), tuple(self._workers))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonce = ""
        try:
            if _user_of(writer) != os.getuid():
                self._complain("a process of another user has connected: closed")
                return
            first = await asyncio.wait_for(read_frame(reader), HELLO_WITHIN)
            hello = None if first is None else decode(first).message
            if not isinstance(hello, Hello) or not self._knows(hello.nonce):
                self._complain(f"somebody who is no worker of this host has connected: {hello}")
                return
            nonce = hello.nonce
            before = self._workers.get(nonce)
            if before is not None:
                before.transport.abort()
            self._workers[nonce] = writer
            task = asyncio.current_task()
            assert task is not None
            self._serving[nonce] = task
            while data := await read_frame(reader):
                self._heard(_event_of(decode(data).message, nonce), data)
        except WireError as error:
            self._complain(f"worker {nonce or '?'}: {error}")
        except (OSError, asyncio.TimeoutError):
            pass  # it has ended, which its pidfd tells, or does not say who it is
        finally:
            if self._workers.get(nonce) is writer:
                del self._workers[nonce], self._serving[nonce]
            writer.transport.abort()


def _event_of(message: Message, nonce: str) -> FromWorker:
    if not isinstance(message, FromWorker):
        raise WireError("message", type(message).__name__, "an event of a member")
    if message.member.nonce != nonce:
        raise WireError("member.nonce", message.member.nonce, f"{nonce}, as the worker has said before")
    return message


def _user_of(writer: asyncio.StreamWriter) -> int:
    credentials = struct.Struct("3i")
    data = b""
    with suppress(OSError):
        data = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    return int(credentials.unpack(data)[1]) if data else -1
