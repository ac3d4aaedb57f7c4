"""Faults of TCP connections, done to this process's own sockets by the kernel: no root, no proxy.

Loss and cuts are filters (classic BPF) on the sockets: what they refuse is lost as if it had not arrived, and TCP does
what it does then. They concern what comes in, so a cut of one rank is one-way towards it, and its acknowledgements go
on; cut both ranks for both ways.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

Undo = Callable[[], None]

_SO_ATTACH_FILTER, _SO_DETACH_FILTER, _SO_MAX_PACING_RATE = 26, 27, 47
_LOAD_RANDOM = (0x20, 0, 0, 0xFFFFF000 + 56)  # ld [SKF_AD_OFF + SKF_AD_RANDOM]
_KEEP, _DROP = (0x06, 0, 0, 0xFFFFFFFF), (0x06, 0, 0, 0)  # ret
_JUMP_IF_AT_LEAST = 0x35
_AGAIN_S = 0.02
"""How often it is looked for new connections."""
_NONE = "the process has no such TCP connection; within a host ranks use shared memory"
_UNLIMITED = 0xFFFFFFFF


class NoConnectionsError(Exception):
    """There is nothing to be done anything to."""


def _sockets(pids: list[int]) -> Iterator[socket.socket]:
    """Of this process; with ids, only connections to those processes. Each is closed behind its turn, which closes no
    connection: whoever kept it would keep the program from closing it."""
    towards = {pair for pid in pids for pair in _ends(pid)}
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError), _duplicate(int(path.name)) as one:
            is_tcp = one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM
            if is_tcp and (not pids or (one.getpeername()[1], one.getsockname()[1]) in towards):
                yield one


def _duplicate(descriptor: int) -> socket.socket:
    """Raises OSError where that is no socket."""
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


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


class _Held:
    """Does something to all sockets, those that are made later as well, until it is to be taken back."""

    def __init__(
        self, pids: list[int], do: Callable[[socket.socket], None], undo: Callable[[socket.socket], None]
    ) -> None:
        self._pids, self._do, self._undo = pids, do, undo
        self._is_over = threading.Event()
        self._looking = threading.Lock()
        self._done: set[int] = set()  # inodes
        self._look()
        if not self._done:
            raise NoConnectionsError(_NONE)
        threading.Thread(target=self._watch, name="pycomms-chaos-net", daemon=True).start()

    def _look(self) -> None:
        for one in _sockets(self._pids):
            inode = os.fstat(one.fileno()).st_ino
            if inode not in self._done:
                self._do(one)
                self._done.add(inode)

    def _watch(self) -> None:
        while not self._is_over.wait(_AGAIN_S):
            with suppress(OSError), self._looking:  # no descriptor is free at this moment
                if not self._is_over.is_set():
                    self._look()

    def end(self) -> None:
        """Of all sockets: what a listening one accepts has its filter, and nobody may have looked at it yet."""
        self._is_over.set()
        with self._looking:
            for one in _sockets([]):
                with suppress(OSError):  # it has no filter
                    self._undo(one)


def _filter(*program: tuple[int, int, int, int]) -> Callable[[socket.socket], None]:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    told = struct.pack("HP", len(program), ctypes.addressof(code))

    def attach(one: socket.socket, _keep: object = code) -> None:
        one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, told)

    return attach


def _detach(one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)


def _cut(fault: dict[str, Any]) -> Undo:
    return _Held(fault.get("pids", []), _filter(_DROP), _detach).end


def _lose(fault: dict[str, Any]) -> Undo:
    least = min(int(fault["share"] * 2**32), 2**32 - 1)
    program = (_LOAD_RANDOM, (_JUMP_IF_AT_LEAST, 1, 0, least), _DROP, _KEEP)
    return _Held(fault.get("pids", []), _filter(*program), _detach).end


def _limit(fault: dict[str, Any]) -> Undo:
    def pace(rate: int) -> Callable[[socket.socket], None]:
        return lambda one: one.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("I", rate))

    return _Held(fault.get("pids", []), pace(fault["rate"]), pace(_UNLIMITED)).end


def _reset(fault: dict[str, Any]) -> None:
    ended = 0
    for one in _sockets(fault.get("pids", [])):
        if not one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            one.shutdown(socket.SHUT_RDWR)
            ended += 1
    if not ended:
        raise NoConnectionsError(_NONE)


ACTS: dict[str, Callable[[dict[str, Any]], Undo | None]] = {
    "cut": _cut,
    "loss": _lose,
    "limit": _limit,
    "reset": _reset,
}
