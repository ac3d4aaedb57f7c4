"""The output of one stream of a worker: read in the event loop, cut into lines, given to the writer."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import deque
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pycomms.ft.run.lines import Lines
from pycomms.ft.run.logs import Destination
from pycomms.ft.run.words import Voice
from pycomms.ft.run.writer import Writer

_ROOM = 256 << 10
_READ = 64 << 10
_TAIL_LINES, _TAIL_BYTES = 20, 8 << 10
_FILE = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class Stream:
    """Give ``write_end`` to the process, then call `started`."""

    def __init__(self, destination: Destination, writer: Writer, console: int, prefix: bytes) -> None:
        self._destination = destination
        self._writer = writer
        self._console = console
        self._lines = Lines()
        self.prefix = prefix
        self._tail: deque[bytes] = deque(maxlen=_TAIL_LINES)
        self._file: int | None = None
        self._filtered: int | None = None
        self._read_end: int | None = None
        self.ended = asyncio.Event()
        self._open()

    def assign(self, destination: Destination, prefix: bytes) -> None:
        """From here on the stream is another worker's."""
        self._destination, self.prefix = destination, prefix
        self._piped = True
        self._tail.clear()
        self._open_files()

    def _open_files(self) -> None:
        """What cannot be opened is written to the console instead: no worker has to wait for a disk."""
        wanted = self._destination
        try:
            if wanted.file is not None:
                self._file = os.open(wanted.file, _FILE, 0o644)
            if wanted.filtered is not None:
                self._filtered = os.open(wanted.filtered, _FILE, 0o644)
        except OSError as error:
            Voice(self._writer).say(f"{error.filename}: {error.strerror}: what would go there goes to the console")
            file = wanted.file if self._file is not None else None
            self._destination = replace(wanted, file=file, filtered=None, console=True)

    def _open(self) -> None:
        self._open_files()
        self._piped = not self._destination.direct
        if not self._piped:
            assert self._file is not None
            self.write_end, self._file = self._file, None
            self.ended.set()
            return
        self._read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_end, False)
        with suppress(OSError):  # beyond what this user may have: it works with less
            fcntl.fcntl(self._read_end, fcntl.F_SETPIPE_SZ, _ROOM)

    def started(self) -> None:
        """The process has its end; it alone keeps the stream open from here on."""
        os.close(self.write_end)
        if self._read_end is not None:
            asyncio.get_running_loop().add_reader(self._read_end, self._read)

    async def drained(self, within: float) -> None:
        """All that a process that has ended has written is with the writer.

        Whatever it has left behind may hold the stream open for ever, so this ends after ``within`` seconds.
        """
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.ended.wait(), within)
        self._end()

    @property
    def tail(self) -> list[str]:
        """The last lines of what was written until now."""
        for _ in range(_ROOM // _READ):
            if self._read_end is not None:
                self._read()
        lines = list(self._tail)
        if not self._piped and self._destination.file is not None:
            lines = _end_of(self._destination.file)
        return [line.decode(errors="replace").rstrip("\r\n") for line in lines]

    def _read(self) -> None:
        assert self._read_end is not None
        try:
            data = os.read(self._read_end, _READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        self._give(self._lines.feed(data))
        if self._writer.full:
            self._pause()

    def _pause(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._read_end or -1)

        def resume() -> None:
            if self._read_end is not None:
                loop.add_reader(self._read_end, self._read)

        def resume_soon() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(resume)

        self._writer.when_room(resume_soon)

    def _give(self, lines: list[bytes]) -> None:
        if not lines:
            return
        self._tail.extend(line[-_TAIL_BYTES:] for line in lines if line.strip())
        if self._file is not None:
            self._writer.put(self._file, b"".join(lines))
        if self._filtered is not None:
            matching = [line for line in lines if any(text in line for text in self._destination.filters)]
            if matching:
                self._writer.put(self._filtered, b"".join(matching))
        if self._destination.console:
            self._writer.put(self._console, b"".join(self.prefix + line for line in lines))

    def _end(self) -> None:
        if self._read_end is None:
            return
        with suppress(BlockingIOError, OSError):
            while data := os.read(self._read_end, _READ):
                self._give(self._lines.feed(data))
        self._give(self._lines.end())
        asyncio.get_running_loop().remove_reader(self._read_end)
        os.close(self._read_end)
        self._read_end = None
        for descriptor in (self._file, self._filtered):
            if descriptor is not None:
                self._writer.close(descriptor)
        self._file = self._filtered = None
        self.ended.set()


def _end_of(file: Path) -> list[bytes]:
    try:
        with file.open("rb") as opened:
            opened.seek(0, os.SEEK_END)
            opened.seek(max(0, opened.tell() - _TAIL_BYTES))
            return opened.read().splitlines()[-_TAIL_LINES:]
    except OSError:
        return []
