"""What a process holds of the system, and what lies in /dev/shm: for tests that nothing is left."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Holdings:
    descriptors: int
    threads: int
    mappings: int  # of shared memory
    pages: int  # resident

    @staticmethod
    def now() -> Holdings:
        _await_end_of_dumps()
        gc.collect()
        # What malloc keeps for later depends on which thread came first, and so on how busy the machine is.
        ctypes.CDLL(None).malloc_trim(0)
        maps = Path("/proc/self/maps").read_text().splitlines()
        return Holdings(
            descriptors=_entries("/proc/self/fd"),
            threads=_entries("/proc/self/task"),
            mappings=sum("memfd:" in line or "/dev/shm/" in line for line in maps),
            pages=int(Path("/proc/self/statm").read_text().split()[1]),
        )


def _await_end_of_dumps() -> None:
    """The flight recorder writes what it has when a group fails, on a thread that ends when it has."""
    if (native := sys.modules.get("pycomms._C")) is not None:
        assert native.recorder_wait_for_dumps(20.0)
    deadline = time.monotonic() + 20
    while any(_name_of(task) == "pycomms-dumps" for task in Path("/proc/self/task").iterdir()):
        assert time.monotonic() < deadline, "a dump of the flight recorder takes too long"


def _name_of(task: Path) -> str:
    try:
        return (task / "comm").read_text().strip()
    except OSError:
        return ""  # it has ended


def shared_memory() -> set[str]:
    """The names of what lies there and is ours, by its name: other programs of the machine come and go. Not the folders
    of the flight recorder, each run of the tests has one, nor those of `pycomms bench`, which its own test counts: both
    may come and go in other tests at the same time.
    """
    names = {path.name for path in Path("/dev/shm").iterdir()}
    return {name for name in names if "pycomms" in name and not name.startswith(("pycomms-fr-", "pycomms-bench-"))}


def _entries(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())
