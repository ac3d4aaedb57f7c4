"""Gives a descriptor another socket behind the program's back: also where it waits for it, in its epoll instances."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ADD, _DELETE = 1, 2
_BY_ITSELF = 0x18  # EPOLLERR and EPOLLHUP, which are always reported


class _Event(ctypes.Structure):
    if platform.machine() == "x86_64":
        _pack_ = 1
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


def replace(number: int, new: int, inode: int) -> bool:
    """Puts a duplicate of `new` in the place of what `number` is, which has this inode; False: it is something else by
    now. The program must have no thread that sleeps in a call on it: so only where it does not block.

    With Python's lock held, in as little time as can be: what the program changes meanwhile of how it waits is lost.
    """
    library = ctypes.PyDLL(None, use_errno=True)
    waits = list(_waits_for(number, inode))
    flags = os.O_CLOEXEC if fcntl.fcntl(number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC else 0
    if os.fstat(number).st_ino != inode:
        return False
    for epoll, event in waits:
        library.epoll_ctl(epoll, _DELETE, number, ctypes.byref(event))
    library.dup3(new, number, flags)
    for epoll, event in waits:
        library.epoll_ctl(epoll, _ADD, number, ctypes.byref(event))
    return True


def _waits_for(number: int, inode: int) -> Iterator[tuple[int, _Event]]:
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            if str(path.readlink()) != "anon_inode:[eventpoll]":
                continue
            for line in Path(f"/proc/self/fdinfo/{path.name}").read_text().splitlines():
                # tfd: 5 events: 19 data: ffffffff pos:0 ino:f4e7 sdev:9
                told = line.replace(":", ": ").split()
                if told[0] == "tfd:" and int(told[1]) == number and int(told[told.index("ino:") + 1], 16) == inode:
                    events = int(told[3], 16) & ~_BY_ITSELF
                    yield int(path.name), _Event(events, int(told[5], 16))
