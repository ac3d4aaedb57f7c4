"""Where the files of the flight recorder lie, and which old ones may go. Must not know: torch, what is in them."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")
KEEP_SECONDS = 24 * 3600
KEEP_FILES = 256
KEEP_SHARE = 1 / 8
"""Of the file system: /dev/shm may be small, as it is in containers, and belongs to others too."""
_PID = re.compile(r"\.(\d+)(?:\.\d+)?\.(?:ring|dump|part|stacks)$")


def base_folder(configured: str) -> Path:
    """The folder of all jobs of this user."""
    return Path(configured) if configured else _SHARED_MEMORY / f"pycomms-fr-{os.getuid()}"


def job_name(configured: str, launched: str) -> str:
    """As the name of a folder."""
    name = configured or launched or f"parent{os.getppid()}"
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:128].lstrip(".") or "job"


def make_private(folder: Path) -> None:
    """Makes it with its parents, readable by this user alone.

    Raises:
        OSError: it cannot be made, or it is somebody else's: what lies in a folder that others write to is not ours.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # What a link leads to may be ours, and yet not where we meant to write.
    if {folder.stat().st_uid, folder.lstat().st_uid} != {os.getuid()}:
        raise PermissionError(f"{folder} belongs to another user")


def _in_folders(base: Path) -> Iterator[Path]:
    """What lies in the folders of jobs."""
    for folder in base.iterdir():
        with contextlib.suppress(OSError):  # it is a file, or is gone: all ranks of a job clean up at the same time
            yield from folder.iterdir()


def clean_up(base: Path, now: float | None = None) -> None:
    """Removes files of processes that have ended a day ago and more, and the oldest when there are too many."""
    moment = time.time() if now is None else now
    space = os.statvfs(base)
    room = space.f_blocks * space.f_frsize * KEEP_SHARE
    found: list[tuple[float, Path, int]] = []
    for path in _in_folders(base):
        pid = _PID.search(path.name)
        if pid is None or Path("/proc", pid.group(1)).exists() or path.parent.is_symlink():
            continue
        try:
            status = path.lstat()
        except OSError:
            continue  # another rank cleans up as well
        if not stat.S_ISDIR(status.st_mode):
            found.append((status.st_mtime, path, status.st_size))
    found.sort(reverse=True)
    for i, (changed, path, size) in enumerate(found):
        room -= size
        if room < 0 or i >= KEEP_FILES or moment - changed > KEEP_SECONDS:
            with contextlib.suppress(OSError):  # somebody else's, or gone: the room it takes is not worth a job
                path.unlink()
    for folder in {path.parent for _, path, _ in found}:
        try:
            folder.rmdir()
        except OSError:
            continue  # it is not empty, or gone
