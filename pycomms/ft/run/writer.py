"""The one thread that writes to the console and to files: a reader that is slow, or a disk, must not keep the event
loop from seeing that a worker has died.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta

FULL = 8 << 20
"""Bytes that may wait; above that `Writer.full` asks those who read from workers to pause."""


class Writer:
    """Writes pieces in the order in which they were put. Any thread may put."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, bytes]] = deque()
        self._waiting = 0
        self._lock = threading.Condition()
        self._ending = False
        self._broken: set[int] = set()
        self._resume: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, name="pycomms-write", daemon=True)
        self._thread.start()

    def put(self, descriptor: int, data: bytes) -> None:
        """Never blocks. What goes to a descriptor that cannot be written is lost."""
        with self._lock:
            self._pieces.append((descriptor, data))
            self._waiting += len(data)
            self._lock.notify()

    def close(self, descriptor: int) -> None:
        """When all that was put for it is written."""
        self.put(descriptor, b"")

    @property
    def full(self) -> bool:
        return self._waiting > FULL

    def when_room(self, callback: Callable[[], None]) -> None:
        """Called once, from the writer's thread, when half of the room is free; at once if it is now."""
        with self._lock:
            if self._waiting > FULL // 2:
                self._resume.append(callback)
                return
        callback()

    def end(self, within: timedelta) -> bool:
        """Writes what is left. False: it has not been written in time."""
        with self._lock:
            self._ending = True
            self._lock.notify()
        self._thread.join(within.total_seconds())
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._pieces or self._ending)
                if not self._pieces:
                    return
                pieces, self._pieces = self._pieces, deque()
            for descriptor, data in _joined(pieces):
                self._write(descriptor, data)
                with self._lock:
                    self._waiting -= len(data)
                    woken = self._resume if self._waiting <= FULL // 2 else []
                    if woken:
                        self._resume = []
                for callback in woken:
                    callback()

    def _write(self, descriptor: int, data: bytes) -> None:
        if not data:
            os.close(descriptor)
            self._broken.discard(descriptor)
            return
        view = memoryview(data)
        while view and descriptor not in self._broken:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:  # somebody has made the console non-blocking
                _wait_writable(descriptor)
            except OSError:
                self._broken.add(descriptor)


def _joined(pieces: deque[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Neighbours for the same descriptor as one: fewer system calls, and whole lines stay whole."""
    joined: list[tuple[int, bytes]] = []
    run: list[bytes] = []
    for index, (descriptor, data) in enumerate(pieces):
        run.append(data)
        following = pieces[index + 1] if index + 1 < len(pieces) else None
        if following is None or following[0] != descriptor or not following[1] or not data:
            joined.append((descriptor, b"".join(run)))
            run = []
    return joined


def _wait_writable(descriptor: int) -> None:
    select.select([], [descriptor], [], 1.0)
