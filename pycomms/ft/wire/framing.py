"""Envelopes on a byte stream: the length in 4 bytes, little endian, then so many bytes."""

from __future__ import annotations

import asyncio
import struct

from pycomms.ft.wire.errors import WireError

LIMIT = 4 << 20
"""Bytes of an envelope, at most: on the socket as in the stream."""

_LENGTH = struct.Struct("<I")


def frame(envelope: bytes) -> bytes:
    """The envelope as it goes onto the socket."""
    return _LENGTH.pack(_checked(len(envelope))) + envelope


class Unframer:
    """Takes what has been read from a stream, in pieces of any size, and gives back the envelopes in it."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The envelopes that are whole now.

        Raises:
            WireError: a length that is 0 or above the limit. The stream is of no use from there on. Envelopes before it
                are given back first, and the next call raises.
        """
        self._rest += data
        found: list[bytes] = []
        at = 0
        while len(self._rest) - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._rest, at)
            if found and not 0 < length <= LIMIT:
                break
            end = at + _LENGTH.size + _checked(length)
            if len(self._rest) < end:
                break
            found.append(bytes(self._rest[at + _LENGTH.size : end]))
            at = end
        del self._rest[:at]
        return found


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next envelope; None: the other side has ended the stream between two.

    The caller sets the deadline.

    Raises:
        WireError: a length that is 0 or above the limit, or the stream ends within an envelope.
    """
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return await reader.readexactly(_checked(length))
    except asyncio.IncompleteReadError as end:
        if end.partial or end.expected != _LENGTH.size:
            raise WireError("frame", f"{len(end.partial)} bytes", f"{end.expected} before the end") from end
        return None


def _checked(length: int) -> int:
    if not 0 < length <= LIMIT:
        raise WireError("frame.length", length, f"1 to {LIMIT}")
    return length
