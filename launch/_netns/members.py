"""The processes inside network namespaces, and their end. Any thread.

They are found by the namespace itself, so processes that daemonised or whose parent is gone are found as well.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from .names import RUN
from .system import NetnsError

END_TIMEOUT_S = 10.0


def kill_all(namespaces: Iterable[str]) -> list[int]:
    """Ends all processes in these namespaces and returns their ids. The caller is spared, should he be inside."""
    wanted = {_identity(RUN / name) for name in namespaces} - {None}
    killed: set[int] = set()
    deadline = time.monotonic() + END_TIMEOUT_S
    while members := _inside(wanted):
        if time.monotonic() > deadline:
            raise NetnsError(f"processes {members} did not end within {END_TIMEOUT_S:.0f} s of SIGKILL")
        for pid in members:
            if _kill(pid, wanted, deadline):
                killed.add(pid)
    return sorted(killed)


def _inside(wanted: set[tuple[int, int] | None]) -> list[int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if pid != os.getpid() and _namespace(pid) in wanted]


def _kill(pid: int, wanted: set[tuple[int, int] | None], deadline: float) -> bool:
    """Through a descriptor of the process: the id may have passed to another by now."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if _namespace(pid) not in wanted:
            return False
        signal.pidfd_send_signal(process, signal.SIGKILL)
        ended = select.poll()
        ended.register(process, select.POLLIN)
        ended.poll(max(0.0, deadline - time.monotonic()) * 1000)
    except ProcessLookupError:
        return False
    finally:
        os.close(process)
    return True


def _namespace(pid: int) -> tuple[int, int] | None:
    return _identity(Path(f"/proc/{pid}/ns/net"))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:  # it is gone, or is going
        return None
    return found.st_dev, found.st_ino
