"""An agent that does nothing but talk with one worker, one message after the other."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import TYPE_CHECKING

from pycomms.ft.core.messages import EpochId, Form, MemberId, Position, Ready, Seat
from pycomms.ft.wire import Hello, Message, Unframer, decode, encode, frame

if TYPE_CHECKING:
    from typing_extensions import Self

DEADLINE_S = 20.0
ME = MemberId("north", "a1")


class Agent:
    """address: as in PYCOMMS_AGENT."""

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind("\0" + address[1:] if address.startswith("@") else address)
        self._listener.listen()
        self._listener.settimeout(DEADLINE_S)
        self._worker: socket.socket | None = None

    def accept(self) -> Hello:
        """The next connection, which says hello."""
        self.drop()
        self._worker, _ = self._listener.accept()
        self._worker.settimeout(DEADLINE_S)
        self._unframer = Unframer()
        self._heard: list[bytes] = []
        hello = self.hear()
        assert isinstance(hello, Hello)
        return hello

    def hear(self) -> Message:
        assert self._worker is not None
        while not self._heard:
            data = self._worker.recv(1 << 16)
            assert data, "the worker has closed"
            self._heard += self._unframer.feed(data)
        return decode(self._heard.pop(0)).message

    def is_left(self) -> bool:
        """Waits for the worker's end of the connection."""
        assert self._worker is not None
        return not self._heard and self._worker.recv(1) == b""

    def say(self, message: Message) -> None:
        self.say_bytes(frame(encode(message, (ME.nonce,))))

    def say_bytes(self, data: bytes) -> None:
        assert self._worker is not None
        self._worker.sendall(data)

    def drop(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()
        self._listener.close()


def form(counter: int, *, members: int = 3, before: int | None = None) -> Form:
    seats = tuple(
        Seat(
            member=MemberId("north", f"a{slot + 1}"),
            slot=slot,
            handle=f"nccl2:1:{slot}:{slot}:{EpochId(9, counter - 1).uuid}:x",
            position=Position(committed=counter),
        )
        for slot in range(members)
    )
    return Form(epoch=EpochId(9, counter), previous=EpochId(9, before) if before else None, seats=seats)


def ready(counter: int) -> Ready:
    return Ready(member=ME, epoch=EpochId(9, counter), handle="h", position=Position(committed=5), reason="r")
