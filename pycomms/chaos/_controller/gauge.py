"""What the processes of a job hold, looked at every two seconds: memory of their own, descriptors, threads."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pycomms.chaos._controller.journal import Journal

_EVERY_S = 2.0
_PAGE_B = os.sysconf("SC_PAGE_SIZE")


async def watch(journal: Journal, processes: Callable[[], Mapping[int, Mapping[str, Any]]]) -> None:
    """Until it is cancelled. processes: by pid, with what is written down of who each is."""
    while True:
        for pid, who in processes().items():
            held = look(pid)
            if held is not None:
                journal.write("gauge", **{"pid": pid, **who, **held})
        await asyncio.sleep(_EVERY_S)


def look(pid: int) -> dict[str, int] | None:
    """Bytes that no file and no other process has as well; open descriptors; threads. None: it has ended."""
    process = Path(f"/proc/{pid}")
    try:
        _, resident, shared, *_ = map(int, (process / "statm").read_text().split())
        descriptors = sum(1 for _ in (process / "fd").iterdir())
        threads = int((process / "stat").read_text().rpartition(") ")[2].split()[17])
    except (OSError, ValueError):
        return None
    if not resident:  # a process that ends has no memory, and descriptors for a while
        return None
    return {"memory": (resident - shared) * _PAGE_B, "descriptors": descriptors, "threads": threads}
