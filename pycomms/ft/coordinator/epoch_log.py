"""Which epochs there were: a file that only grows, so that a coordinator that starts again uses none of them twice.

A line per epoch: boot, counter and a checksum. A boot is on the disk before any epoch of it is told to anybody. What a
crash has left unfinished at the end counts as never written.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from pycomms.ft.core.messages import EpochId

if TYPE_CHECKING:
    from typing_extensions import Self

_NAME = "epochs.log"


class LogInUseError(Exception):
    """Another coordinator has this folder."""


class EpochLog:
    """Opens the log in a folder, which is made where it is missing, and locks it. One thread at a time.

    Raises:
        LogInUseError: see there.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = folder / _NAME
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._lock()
            self._newest, self._has_formed = self._recover()
            _sync_folder(folder)
        except BaseException:
            os.close(self._file)
            raise

    @property
    def newest(self) -> EpochId | None:
        return self._newest

    @property
    def has_formed(self) -> bool:
        """Whether members were ever told an epoch of this log."""
        return self._has_formed

    def next_boot(self, now: float) -> int:
        """A boot greater than any in the log; seconds since 1970 where the clock was not set back."""
        return max(int(now), self._newest.boot + 1 if self._newest else 0)

    def append(self, epoch: EpochId) -> None:
        """Returns when the epoch is on the disk. A counter of 0 says that a coordinator has started."""
        os.write(self._file, _line(epoch))
        os.fdatasync(self._file)
        self._newest = max(epoch, self._newest or epoch)
        self._has_formed |= epoch.counter > 0

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LogInUseError(f"another coordinator uses {self.path}") from None

    def _recover(self) -> tuple[EpochId | None, bool]:
        data = self.path.read_bytes()
        epochs = []
        for line in data.splitlines(keepends=True):
            epoch = _epoch(line)
            if epoch is not None:
                epochs.append(epoch)
        if data and not data.endswith(b"\n"):
            os.write(self._file, b"\n")  # what comes next gets a line of its own
        return max(epochs, default=None), any(epoch.counter > 0 for epoch in epochs)


def _line(epoch: EpochId) -> bytes:
    text = f"{epoch.boot} {epoch.counter}".encode()
    return b"%b %08x\n" % (text, zlib.crc32(text))


def _epoch(line: bytes) -> EpochId | None:
    """None: the line is not whole, or something else has written over it."""
    fields = line.split()
    if len(fields) != 3 or not (fields[0].isdigit() and fields[1].isdigit()):
        return None
    epoch = EpochId(int(fields[0]), int(fields[1]))
    return epoch if _line(epoch) == line else None


def _sync_folder(folder: Path) -> None:
    """The name of a new file is on the disk only when its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
