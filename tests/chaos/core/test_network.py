"""Faults of connections are taken back from all of them, those too that are just being made."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pycomms.chaos._inside._pycomms_chaos import _network, _sockets
from pycomms.chaos._inside._pycomms_chaos._errors import NotPossibleError
from pycomms.chaos._inside._pycomms_chaos._sockets import Duplicate, Peers

PATIENCE_S = 20.0
ALL = Peers(None)
NOBODY = 1 << 22
"""No process has this number."""


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_what_was_taken_back_is_not_done_again() -> None:
    order: list[str] = []
    is_looking, go_on = threading.Event(), threading.Event()

    def do(one: Duplicate) -> None:
        if threading.current_thread().name == "pycomms-chaos-net":
            is_looking.set()
            assert go_on.wait(PATIENCE_S)
        order.append("do")

    with socket.create_server(("127.0.0.1", 0)) as server:
        held = _network._Held(ALL, do, lambda one: order.append("undo"))
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
            assert len(list(_sockets.own())) >= 1
    assert descriptors() == before


def test_where_there_is_no_connection_nothing_can_be_done() -> None:
    with pytest.raises(NotPossibleError):
        _network._Held(Peers([NOBODY]), lambda one: None, lambda one: None)
    with pytest.raises(NotPossibleError):
        _network.ACTS["cut"]({"pids": []})  # nobody is there of those that it concerns: that is not all


def test_a_cut_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        there, _ = server.accept()
        with there:
            take_back = _network.ACTS["cut"]({"pids": None})
            assert take_back is not None
            here.sendall(b"lost")
            take_back()
            there.settimeout(PATIENCE_S)
            assert there.recv(4) == b"lost"  # TCP has sent it again


def test_the_store_is_found_by_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("MASTER_PORT", str(server.getsockname()[1]))
        monkeypatch.setattr(_network, "_STORE_S", 0.05)
        take_back = _network.ACTS["limit"]({"pids": None, "store": True, "rate": 1000, "for": 0.01})
        assert take_back is not None
        with pytest.raises(NotPossibleError, match="no connection to a store at MASTER_PORT"):
            take_back()  # nobody has connected meanwhile
        with socket.create_connection(server.getsockname()) as here, socket.create_connection(other.getsockname()):
            there, _ = server.accept()
            with there:
                take_back = _network.ACTS["cut"]({"pids": None, "store": True, "for": 0.01})
                assert take_back is not None
                theirs, _ = other.accept()
                with theirs:
                    there.sendall(b"lost")
                    here.settimeout(0.05)
                    with pytest.raises(TimeoutError):
                        here.recv(4)
                    take_back()
                    here.settimeout(PATIENCE_S)
                    assert here.recv(4) == b"lost"
    monkeypatch.delenv("MASTER_PORT")
    with pytest.raises(NotPossibleError, match="no connection to a store"):
        _network.ACTS["reset"]({"pids": None, "store": True})


def test_who_connects_while_it_is_cut_off_is_not_heard_for_a_moment() -> None:
    """Not even before it is known who that is; and whom the cut does not concern is heard."""
    talker = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.sendall(b'x'); input()"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", f"input(); {talker}", str(server.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as stranger:
            try:
                take_back = _network.ACTS["partition"]({"pids": [stranger.pid], "waits": True})
                assert stranger.stdin is not None
                stranger.stdin.write(b"\n")
                stranger.stdin.flush()
                server.settimeout(PATIENCE_S)
                heard, _ = server.accept()
                with heard, socket.create_connection(server.getsockname()) as ours:
                    ours.sendall(b"y")
                    other, _ = server.accept()
                    with other:
                        other.settimeout(PATIENCE_S)
                        assert other.recv(1) == b"y"
                    heard.settimeout(0.0)
                    with pytest.raises(BlockingIOError):
                        heard.recv(1)
                    assert take_back is not None
                    take_back()
                    heard.settimeout(PATIENCE_S)
                    assert heard.recv(1) == b"x"
            finally:
                stranger.kill()
