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
_UNLIMITED = 0xFFFFFFFF


class NoConnectionsError(Exception):
    """There is nothing to be done anything to."""


def _connections(pids: list[int]) -> Iterator[socket.socket]:
    """Of this process, to processes of these ids only if there are any. To be closed; that closes no connection."""
    towards = None if not pids else {pair for pid in pids for pair in _ends(pid)}
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found = socket.socket(fileno=os.dup(int(path.name)))
            if found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM:
                with suppress(OSError):
                    other = found.getpeername()[1], found.getsockname()[1]
                    if towards is None or other in towards:
                        yield found
                        continue
            found.close()


def _ends(pid: int) -> Iterator[tuple[int, int]]:
    """Ports here and there of a process's connections."""
    held = set()
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
    """Does something to all connections, those that are made later as well, until it is to be taken back."""

    def __init__(self, pids: list[int], do: Callable[[socket.socket], None], undo: Callable[[socket.socket], None]):
        self._pids, self._do, self._undo = pids, do, undo
        self._is_over = threading.Event()
        self._done: dict[int, socket.socket] = {}  # by inode
        if not self._look():
            raise NoConnectionsError("the process has no such TCP connection; within a host ranks use shared memory")
        threading.Thread(target=self._watch, name="pycomms-chaos-net", daemon=True).start()

    def _look(self) -> bool:
        for one in _connections(self._pids):
            inode = os.fstat(one.fileno()).st_ino
            if inode in self._done:
                one.close()
                continue
            with suppress(OSError):
                self._do(one)
            self._done[inode] = one
        return bool(self._done)

    def _watch(self) -> None:
        while not self._is_over.wait(_AGAIN_S):
            self._look()

    def end(self) -> None:
        self._is_over.set()
        for one in self._done.values():
            with suppress(OSError):
                self._undo(one)
            one.close()


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
    found = list(_connections(fault.get("pids", [])))
    if not found:
        raise NoConnectionsError("the process has no such TCP connection; within a host ranks use shared memory")
    for one in found:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


ACTS: dict[str, Callable[[dict[str, Any]], Undo | None]] = {
    "cut": _cut,
    "loss": _lose,
    "limit": _limit,
    "reset": _reset,
}
