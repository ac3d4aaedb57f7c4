"""What the kernel cannot do to a connection: it is led through a thread, and what passes is late or spoilt.

The program's descriptor becomes one end of a connection to ourselves; a thread carries the bytes between the other end
and what the descriptor was. It stays so when the fault is over: then bytes pass as they come.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from . import _epoll, _sockets
from ._sockets import Duplicate

THREAD = "pycomms-chaos-proxy"
"""The name of each."""

_ROOM_B = 16 << 20
"""On the way in each direction: more has to wait where it comes from."""
_AT_ONCE_B = 1 << 18
_QUIET_S = 0.02
"""A call on the old socket that has begun before the change is over by then; until then nothing is read from it."""


class Proxy:
    """One connection. Its attributes may be set by any thread.

    Attributes:
        delay: seconds that it takes to pass, in each direction.
        spoil: is called with what comes in, and may change it.
    """

    def __init__(self, one: Duplicate) -> None:
        """Raises OSError where it cannot be led through here: it is no connection yet, or blocking, or gone."""
        one.getpeername()
        if os.get_blocking(one.fileno()):
            raise OSError("somebody may be waiting in it")
        self.delay = 0.0
        self.spoil: Callable[[bytearray], None] | None = None
        here, there = _pair()
        with here:
            self._inner = there
            self._outer = socket.socket(fileno=os.dup(one.fileno()))
            self._hidden = {os.fstat(each.fileno()).st_ino for each in (here, there)}
            _sockets.hidden |= self._hidden
            if not _epoll.replace(one.number, here.fileno(), one.inode):
                self._close()
                raise OSError("it has just been closed")
        self._may_read_at = time.monotonic() + _QUIET_S
        threading.Thread(target=self._carry, name=THREAD, daemon=True).start()

    def _carry(self) -> None:
        into, out = _Way(self._outer, self._inner), _Way(self._inner, self._outer)
        while not (into.is_over and out.is_over):
            now = time.monotonic()
            is_quiet = now >= self._may_read_at
            poll = select.poll()
            wanted = {self._outer: 0, self._inner: 0}
            dues = [] if is_quiet else [self._may_read_at]
            for way in (into, out):
                if way.reads and (is_quiet or way is out):
                    wanted[way.source] |= select.POLLIN
                if way.due is not None:
                    if way.due <= now:
                        wanted[way.target] |= select.POLLOUT
                    else:
                        dues.append(way.due)
            for end, events in wanted.items():
                if events:
                    poll.register(end, events)
            ready = dict(poll.poll(max(0.0, min(dues) - now) * 1e3 if dues else None))
            if out.reads and ready.get(self._inner.fileno(), 0) & ~select.POLLOUT:
                out.read(self.delay)
            if into.reads and ready.get(self._outer.fileno(), 0) & ~select.POLLOUT:
                data = into.read(self.delay)
                if self.spoil is not None and data:
                    self.spoil(data)
            for way in (into, out):
                way.write()
        self._close()

    def _close(self) -> None:
        self._inner.close()
        self._outer.close()
        _sockets.hidden -= self._hidden


class _Way:
    """One direction."""

    def __init__(self, source: socket.socket, target: socket.socket) -> None:
        self.source, self.target = source, target
        self._under_way: deque[tuple[float, bytearray]] = deque()  # empty: the end
        self._held_b = 0
        self._has_ended = False
        self.is_over = False

    @property
    def reads(self) -> bool:
        return not self._has_ended and self._held_b < _ROOM_B

    @property
    def due(self) -> float | None:
        """When something is to be written; None: nothing is under way."""
        return self._under_way[0][0] if self._under_way else None

    def read(self, delay: float) -> bytearray | None:
        """What is under way now, to be spoilt; None: nothing is."""
        data = bytearray(_AT_ONCE_B)
        try:
            del data[self.source.recv_into(data) :]
        except BlockingIOError:
            return None
        except OSError:  # it was reset, or nobody has answered
            self._has_ended = self.is_over = True
            with suppress(OSError):
                self.target.shutdown(socket.SHUT_RDWR)
            return None
        self._has_ended = not data
        self._held_b += len(data)
        self._under_way.append((time.monotonic() + delay, data))
        return data

    def write(self) -> None:
        while self._under_way and self._under_way[0][0] <= time.monotonic():
            data = self._under_way[0][1]
            try:
                if not data:
                    self.is_over = True
                    self.target.shutdown(socket.SHUT_WR)
                    return
                sent = self.target.send(data)
            except BlockingIOError:
                return
            except OSError:  # nobody reads it
                self._has_ended = self.is_over = True
                self._under_way.clear()
                return
            self._held_b -= sent
            del data[:sent]
            if not data:
                self._under_way.popleft()


def _pair() -> tuple[socket.socket, socket.socket]:
    """A connection to ourselves, which nobody else can have made."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        while True:
            there, peer = server.accept()
            if peer == here.getsockname():
                break
            there.close()
    for one in (here, there):
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return here, there
