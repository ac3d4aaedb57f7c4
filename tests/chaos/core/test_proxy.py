"""Connections that are led through a thread behind the program's back: nothing is lost, and what should be late is."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pycomms.chaos._inside._pycomms_chaos import _network, _sockets
from pycomms.chaos._inside._pycomms_chaos._errors import NotPossibleError
from pycomms.chaos._inside._pycomms_chaos._proxy import THREAD

PATIENCE_S = 20.0
DELAY_S = 0.1


class End:
    """A connection as programs hold it that do not block: it waits in an epoll instance."""

    def __init__(self, one: socket.socket) -> None:
        one.setblocking(False)
        self.socket = one
        self._epoll = select.epoll()
        self._epoll.register(one, select.EPOLLIN)

    def receive(self, count: int) -> bytes:
        """Fewer: the end has come."""
        found = b""
        until = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert self._epoll.poll(until - time.monotonic()), f"{len(found)} of {count} bytes within {PATIENCE_S} s"
            try:
                data = self.socket.recv(count - len(found))
            except BlockingIOError:
                continue
            if not data:
                break
            found += data
        return found

    def close(self) -> None:
        self.socket.close()
        self._epoll.close()


@contextmanager
def connection() -> Iterator[tuple[End, End]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here, there = socket.create_connection(server.getsockname()), server.accept()[0]
    ends = End(here), End(there)
    try:
        yield ends
    finally:
        for end in ends:
            end.close()
        for thread in threading.enumerate():  # the next test shall find none of these connections
            if thread.name == THREAD:
                thread.join(PATIENCE_S)
                assert not thread.is_alive()


def fault(kind: str, **settings: object) -> _network.Undo | None:
    """Done to both ends: they are of one process."""
    return _network.ACTS[kind]({"pids": None, **settings})


def round_trip(here: End, there: End) -> float:
    begin = time.monotonic()
    here.socket.sendall(b"there")
    assert there.receive(5) == b"there"
    there.socket.sendall(b"back")
    assert here.receive(4) == b"back"
    return time.monotonic() - begin


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_what_is_late_comes_and_is_late_no_more_when_that_is_over() -> None:
    with connection() as (here, there):
        round_trip(here, there)
        take_back = fault("delay", delay=DELAY_S)
        assert take_back is not None
        assert round_trip(here, there) >= 4 * DELAY_S  # each way, at each end
        take_back()
        assert not any(proxy.delay for proxy in _network._proxies.values())
        round_trip(here, there)
        again = fault("delay", delay=DELAY_S / 4)
        assert again is not None
        assert round_trip(here, there) >= DELAY_S  # not led through once more
        again()


def test_what_was_on_its_way_comes_before_what_is_late() -> None:
    sent = bytes(range(256)) * 4096
    with connection() as (here, there):
        here.socket.sendall(sent[:5000])
        take_back = fault("delay", delay=0.001)
        assert take_back is not None
        found = b""
        for place in range(5000, len(sent), 10_000):
            here.socket.sendall(sent[place : place + 10_000])
            found += there.receive(7_000)
        assert found + there.receive(len(sent) - len(found)) == sent
        take_back()


def test_the_end_of_a_connection_comes_behind_all_else() -> None:
    before = descriptors()
    with connection() as (here, there):
        take_back = fault("delay", delay=DELAY_S)
        assert take_back is not None
        here.socket.sendall(b"bye")
        here.close()
        assert there.receive(4) == b"bye"
        there.close()
        take_back()
    until = time.monotonic() + PATIENCE_S
    while descriptors() > before or _sockets.hidden:
        assert time.monotonic() < until, f"{descriptors()} descriptors, {before} before"


@pytest.mark.parametrize(("part", "place"), [("payload", 666), ("header", 0)])
def test_one_bit_is_another(part: str, place: int) -> None:
    sent = bytes(2000)
    with connection() as (here, there):
        fault("corrupt", part=part)
        here.socket.sendall(sent)
        found = there.receive(len(sent))
        assert [(at, byte) for at, byte in enumerate(found) if byte] == [(place, 0x10)]
        here.socket.sendall(sent)
        assert there.receive(len(sent)) == sent  # once


def test_a_socket_in_which_a_thread_may_sleep_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        with there, pytest.raises(NotPossibleError):
            fault("delay", delay=DELAY_S)
        assert here.getpeername() == server.getsockname()
