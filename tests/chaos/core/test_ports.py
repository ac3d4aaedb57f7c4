"""Whose a port is, from /proc."""

from __future__ import annotations

import os
import socket

from pycomms.chaos._controller import ports


def test_a_port_belongs_to_who_has_it_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (inode,) = [inode for inode, one in ports.held_by([os.getpid(), 1 << 22]).items() if one == port]
        assert ports.listening()[inode] == port
    assert inode not in ports.listening()


def test_a_connection_is_no_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        own = here.getsockname()[1]
        assert own not in ports.held_by([os.getpid()]).values()
