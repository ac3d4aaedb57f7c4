"""The agent's folder for what has to be a file: the token, the coordinator's state, errors of workers."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_LOCK = "lock"


class Scratch:
    """Removed at the end. What agents that were killed have left is removed by the next one."""

    def __init__(self) -> None:
        """Raises OSError where there is no room."""
        prefix = f"pycomms-run-{os.getuid()}-"
        base = Path(tempfile.gettempdir())
        for old in base.glob(f"{prefix}*"):
            _remove_if_left(old)
        while not self._has_taken(Path(tempfile.mkdtemp(prefix=prefix))):
            pass

    def _has_taken(self, folder: Path) -> bool:
        """False: an agent that was starting too has taken it for one that was left."""
        self.folder = folder
        self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(BlockingIOError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.exists():
                return True
        os.close(self._lock)
        return False

    def token(self) -> Path:
        """A new one, in a file that only this user can read."""
        path = self.folder / "token"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
        return path

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _remove_if_left(folder: Path) -> None:
    """If the agent whose folder it was does not live any more."""
    with suppress(OSError):
        if folder.stat().st_uid != os.getuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
