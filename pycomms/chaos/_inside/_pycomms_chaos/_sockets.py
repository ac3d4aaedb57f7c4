"""The TCP sockets of this process, and who is at their other end. From /proc: no root, and no word to the program."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

hidden: set[int] = set()
"""Inodes of those that are ours, and not the program's way to others."""


class Duplicate(socket.socket):
    """Of a socket that the program has open as `number`. To be closed soon: whoever kept it would keep the program from
    closing the connection."""

    number = -1

    @property
    def inode(self) -> int:
        """Whose number is used again tells by it that it is another one."""
        return os.fstat(self.fileno()).st_ino

    @property
    def is_listening(self) -> bool:
        return bool(self.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))

    @property
    def ports(self) -> tuple[int, int]:
        """There and here. Raises OSError where it is not connected."""
        return self.getpeername()[1], self.getsockname()[1]


def own() -> Iterator[Duplicate]:
    """Each is closed behind its turn."""
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError), _duplicate(int(path.name)) as one:
            if (
                one.family in (socket.AF_INET, socket.AF_INET6)
                and one.type == socket.SOCK_STREAM
                and one.inode not in hidden
            ):
                yield one


def _duplicate(number: int) -> Duplicate:
    """Raises OSError where that is no socket."""
    copy = os.dup(number)
    try:
        found = Duplicate(fileno=copy)
    except OSError:
        os.close(copy)
        raise
    found.number = number
    return found


class Peers:
    """Who is at the other end of a connection."""

    def __init__(self, pids: list[int] | None, port: int = 0) -> None:
        """pids: processes of this host; None: whoever it is. port: only who is there, or has come to us there."""
        self.are_all = pids is None and not port
        self._pids = pids
        self._port = port
        self._ports: set[tuple[int, int]] = set()

    def look(self) -> None:
        """Which connections they have at this moment."""
        self._ports = {ports for pid in self._pids or () for ports in _ends(pid)}

    def have(self, one: Duplicate) -> bool:
        try:
            if self.are_all:
                return True
            ports = one.ports
            return (self._pids is None or ports in self._ports) and (not self._port or self._port in ports)
        except OSError:
            return False


def _ends(pid: int) -> Iterator[tuple[int, int]]:
    """Ports here and there of a process's connections."""
    held = set()
    with suppress(OSError):  # it has ended
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                held.add(str(path.readlink()))
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if f"socket:[{fields[9]}]" in held:
                    yield int(fields[1].rpartition(":")[2], 16), int(fields[2].rpartition(":")[2], 16)
