"""Faults of connections are taken back from all of them, those too that are just being made."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from pycomms.chaos._inside._pycomms_chaos import _network

PATIENCE_S = 20.0


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_what_was_taken_back_is_not_done_again() -> None:
    order: list[str] = []
    is_looking, go_on = threading.Event(), threading.Event()

    def do(one: socket.socket) -> None:
        if threading.current_thread().name == "pycomms-chaos-net":
            is_looking.set()
            assert go_on.wait(PATIENCE_S)
        order.append("do")

    with socket.create_server(("127.0.0.1", 0)) as server:
        held = _network._Held([], do, lambda one: order.append("undo"))
        with socket.create_connection(server.getsockname()):
            assert is_looking.wait(PATIENCE_S)
            ending = threading.Thread(target=held.end)
            ending.start()
            ending.join(1.0)  # in vain: it has to wait for who looks
            go_on.set()
            ending.join(PATIENCE_S)
    assert "do" not in order[order.index("undo") :]


def test_looking_leaves_no_descriptor_open() -> None:
    before = descriptors()
    with socket.create_server(("127.0.0.1", 0)):
        for _ in range(3):
            assert len(list(_network._sockets([]))) >= 1
    assert descriptors() == before


def test_where_there_is_no_connection_nothing_can_be_done() -> None:
    with pytest.raises(_network.NoConnectionsError):
        _network._Held([1 << 22], lambda one: None, lambda one: None)


def test_a_cut_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        with there:
            take_back = _network.ACTS["cut"]({"pids": []})
            assert take_back is not None
            here.sendall(b"lost")
            take_back()
            there.settimeout(PATIENCE_S)
            assert there.recv(4) == b"lost"  # TCP has sent it again
