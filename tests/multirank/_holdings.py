"""What a process holds of the system, and what lies in /dev/shm: for tests that nothing is left."""

from __future__ import annotations

import gc
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
        gc.collect()
        maps = Path("/proc/self/maps").read_text().splitlines()
        return Holdings(
            descriptors=_entries("/proc/self/fd"),
            threads=_entries("/proc/self/task"),
            mappings=sum("memfd:" in line or "/dev/shm/" in line for line in maps),
            pages=int(Path("/proc/self/statm").read_text().split()[1]),
        )


def shared_memory() -> set[str]:
    """The names of what lies there."""
    return {path.name for path in Path("/dev/shm").iterdir()}


def _entries(folder: str) -> int:
    return sum(1 for _ in Path(folder).iterdir())
