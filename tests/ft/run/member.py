"""For programs of workers in tests: a member that says and hears what a session would, without torch."""

from __future__ import annotations

import os
import socket
import sys
from typing import TypeVar

sys.argv[0] = "pycomms"  # the command reads no backend in, so torch stays out

from pycomms.ft.core.messages import (  # noqa: E402
    DONE,
    Announce,
    EpochId,
    Leaving,
    MemberId,
    Position,
    Ready,
    Settled,
)
from pycomms.ft.wire import AnnounceAgain, FormDelta, Hello, Message, SendWhole, Unframer, decode, encode, frame  # noqa: E402

_M = TypeVar("_M")
_WITHIN = 110.0

SLOT = int(os.environ["PYCOMMS_SLOT"])
INCARNATION = int(os.environ["PYCOMMS_INCARNATION"])
ME = MemberId(os.environ["PYCOMMS_HOST"], os.environ["PYCOMMS_MEMBER"])
EPOCH = EpochId(1, 1)


class Member:
    """Connected from the beginning."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_WITHIN)
        self._socket.connect("\0" + os.environ["PYCOMMS_AGENT"][1:])
        self._unframer = Unframer()
        self._envelopes: list[bytes] = []
        self._announced: Announce | None = None
        self.say(Hello(host=ME.host, instance="i", nonce=ME.nonce))

    def say(self, message: Message) -> None:
        self._socket.sendall(frame(encode(message)))

    def announce(self, epoch: EpochId | None = None) -> None:
        self._announced = Announce(
            member=ME, slot=SLOT, pid=os.getpid(), handle=f"h{ME.nonce}", position=Position(), epoch=epoch
        )
        self.say(self._announced)

    def settle(self, epoch: EpochId = EPOCH) -> None:
        self.say(Settled(member=ME, epoch=epoch, seconds=0.1))

    def ready(self, epoch: EpochId, suspects: tuple[MemberId, ...] = ()) -> None:
        self.say(Ready(member=ME, epoch=epoch, handle=f"h{ME.nonce}", position=Position(), suspects=suspects))

    def leave(self) -> None:
        self.say(Leaving(member=ME, reason=DONE))

    def hear(self, kind: type[_M]) -> _M:
        """Waits for the next message of this kind; what else comes is passed over."""
        while True:
            while not self._envelopes:
                data = self._socket.recv(1 << 16)
                if not data:
                    raise ConnectionError("the agent has ended the connection")
                self._envelopes = self._unframer.feed(data)
            message = decode(self._envelopes.pop(0)).message
            if isinstance(message, kind):
                return message
            if isinstance(message, FormDelta):
                self.say(SendWhole(member=ME, epoch=message.epoch))
            if isinstance(message, AnnounceAgain) and self._announced is not None:
                self.say(self._announced)
