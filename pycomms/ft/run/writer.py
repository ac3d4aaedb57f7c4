"""The threads that write to the console and to files, one for each: a reader that is slow, or a disk, must not keep the
event loop from seeing that a worker has died, nor what goes elsewhere from being written.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Callable
from datetime import timedelta

FULL = 8 << 20
"""Bytes that may wait; above that `Writer.full` asks those who read from workers to pause."""

_CLOSE = b""
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Writer:
    """Writes the pieces of each descriptor in the order in which they were put. Any thread may put."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[bytes]] = {}  # by descriptor, which has a thread while it is in here
        self._threads: dict[int, threading.Thread] = {}
        self._waiting = 0
        self._lock = threading.Condition()
        self._ending = False
        self._resume: list[Callable[[], None]] = []

    def put(self, descriptor: int, data: bytes) -> None:
        """Never blocks. What goes to a descriptor that cannot be written is lost; on a full disk, until it has room
        again.
        """
        with self._lock:
            if descriptor not in self._pieces:
                self._pieces[descriptor] = []
                name = f"pycomms-write-{descriptor}"
                thread = threading.Thread(target=self._run, args=(descriptor,), name=name, daemon=True)
                self._threads[descriptor] = thread
                thread.start()
            self._pieces[descriptor].append(data)
            self._waiting += len(data)
            self._lock.notify_all()

    def close(self, descriptor: int) -> None:
        """When all that was put for it is written."""
        self.put(descriptor, _CLOSE)

    @property
    def full(self) -> bool:
        return self._waiting > FULL

    def when_room(self, callback: Callable[[], None]) -> None:
        """Called once, from a writer's thread, when half of the room is free; at once if it is now."""
        with self._lock:
            if self._waiting > FULL // 2:
                self._resume.append(callback)
                return
        callback()

    def end(self, within: timedelta) -> bool:
        """Writes what is left. False: it has not been written in time."""
        deadline = time.monotonic() + within.total_seconds()
        with self._lock:
            self._ending = True
            self._lock.notify_all()
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _run(self, descriptor: int) -> None:
        broken = False
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._pieces[descriptor] or self._ending)
                pieces, self._pieces[descriptor] = self._pieces[descriptor], []
                if not pieces:
                    return
                closes = _CLOSE in pieces
                if closes:  # whatever opens the same number next has a thread of its own
                    del self._pieces[descriptor], self._threads[descriptor]
            data = b"".join(pieces)  # fewer system calls, and whole lines stay whole
            broken = broken or not _write(descriptor, data)
            if closes:
                os.close(descriptor)
            self._written(len(data))
            if closes:
                return

    def _written(self, count: int) -> None:
        with self._lock:
            self._waiting -= count
            woken: list[Callable[[], None]] = []
            if self._waiting <= FULL // 2:
                woken, self._resume = self._resume, []
        for callback in woken:
            callback()


def _write(descriptor: int, data: bytes) -> bool:
    """False: nothing can be written there any more. A full disk may have room again."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:  # somebody has made the console non-blocking
            select.select([], [descriptor], [], 1.0)
        except OSError as error:
            return error.errno in _FULL_DISK
    return True
