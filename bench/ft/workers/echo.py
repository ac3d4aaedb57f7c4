"""A worker that asks its coordinator for the epoch again and again: what a message there and one back take."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

from pycomms.ft.core.messages import DONE, Announce, Form, Leaving, MemberId, Position, Settled
from pycomms.ft.wire import Hello, Message, SendWhole, Unframer, decode, encode, frame

WITHIN_S = 60.0


class Voice:
    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WITHIN_S)
        self._socket.connect("\0" + os.environ["PYCOMMS_AGENT"][1:])
        self._unframer = Unframer()
        self._heard: list[bytes] = []

    def say(self, message: Message) -> None:
        self._socket.sendall(frame(encode(message)))

    def form(self) -> Form:
        while True:
            while not self._heard:
                self._heard = self._unframer.feed(self._socket.recv(1 << 16))
            message = decode(self._heard.pop(0)).message
            if isinstance(message, Form):
                return message


def main(result: Path, count: int) -> None:
    me = MemberId(os.environ["PYCOMMS_HOST"], os.environ["PYCOMMS_MEMBER"])
    voice = Voice()
    voice.say(Hello(host=me.host, instance="echo", nonce=me.nonce))
    voice.say(Announce(member=me, slot=0, pid=os.getpid(), handle="echo", position=Position()))
    epoch = voice.form().epoch
    voice.say(Settled(member=me, epoch=epoch, seconds=0.0))
    times = []
    for _ in range(count):
        began = time.perf_counter()
        voice.say(SendWhole(member=me, epoch=epoch))
        voice.form()
        times.append(time.perf_counter() - began)
    result.write_text(json.dumps(times))
    voice.say(Leaving(member=me, reason=DONE))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
