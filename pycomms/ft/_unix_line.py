"""A worker's connection to the agent of its host: frames on a Unix socket."""

from __future__ import annotations

import os
import select
import socket
import threading
import time

from pycomms.ft._line import LineEnded
from pycomms.ft.core.messages import Evict, MemberId
from pycomms.ft.core.timeouts import Timeouts
from pycomms.ft.wire import Hello, Unframer, WireError, encode, frame

_AT_ONCE = 1 << 18


class UnixDialer:
    """address: a path; an abstract name where it begins with "@"."""

    def __init__(self, address: str, member: MemberId, instance: str, timeouts: Timeouts) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._hello = frame(encode(Hello(host=member.host, instance=instance, nonce=member.nonce)))
        self._patience = timeouts.host_silence.total_seconds()

    def dial(self) -> UnixLine:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._patience)  # a stopped agent with a full backlog
        try:
            connection.connect(self._address)
            connection.setblocking(False)
            line = UnixLine(connection, self._patience)
            line.send_framed(self._hello)
            return line
        except OSError as error:
            connection.close()
            raise LineEnded(f"the agent at {self._address!r} does not answer: {error}") from error

    def interrupt(self) -> None:
        """To connect takes no time on a Unix socket, or at most the time that the deadline allows."""

    def obey(self, evict: Evict) -> None:
        """That is the agent's, and it does not pass it on."""


class UnixLine:
    """patience: seconds that an agent may leave its socket full."""

    def __init__(self, connection: socket.socket, patience: float) -> None:
        self._socket = connection
        self._patience = patience
        self._unframer = Unframer()
        self._lock = threading.Lock()
        self._is_ended = False
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(self._bell, select.POLLIN)

    def send(self, envelope: bytes) -> None:
        self.send_framed(frame(envelope))

    def send_framed(self, data: bytes) -> None:
        rest = memoryview(data)
        deadline = time.monotonic() + self._patience
        try:
            while rest:
                try:
                    rest = rest[self._socket.send(rest, socket.MSG_NOSIGNAL) :]
                except BlockingIOError:
                    self._await_room(deadline)
        except OSError as error:
            raise LineEnded(f"the agent is gone: {error}") from error

    def receive(self) -> list[bytes]:
        found = self._unframed(b"")
        while not found:
            # No deadline: a process without news waits for as long as it lives, and close() rings.
            if any(fd == self._bell for fd, _ in self._poll.poll()):
                self._end()
                raise LineEnded("closed")
            try:
                data = self._socket.recv(_AT_ONCE)
            except BlockingIOError:
                continue
            except OSError as error:
                self._end()
                raise LineEnded(f"the agent is gone: {error}") from error
            if not data:
                self._end()
                raise LineEnded("the agent has ended the connection")
            found = self._unframed(data)
        return found

    def _unframed(self, data: bytes) -> list[bytes]:
        try:
            return self._unframer.feed(data)
        except WireError as error:
            self._end()
            raise LineEnded(f"the agent talks nonsense: {error}") from error

    def close(self) -> None:
        with self._lock:
            if not self._is_ended:
                os.eventfd_write(self._bell, 1)

    def drop(self) -> None:
        self._end()

    def forked(self) -> None:
        self._lock = threading.Lock()  # another thread may have held it when this process was forked off
        self._end()

    def _end(self) -> None:
        """By the thread that waits in poll: nobody else takes its descriptors away from under it."""
        with self._lock:
            if not self._is_ended:
                self._is_ended = True
                self._socket.close()
                os.close(self._bell)

    def _await_room(self, deadline: float) -> None:
        room = select.poll()
        room.register(self._socket, select.POLLOUT)
        left = deadline - time.monotonic()
        if left <= 0 or not room.poll(left * 1000):
            raise TimeoutError(f"it has not read for {self._patience:.1f} s")
