"""TCP ports that processes listen at, by the inode of the socket: it tells whose it is, whatever its number."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_LISTEN = "0A"


def listening() -> dict[str, int]:
    """Of this host's network: ports by inode."""
    found: dict[str, int] = {}
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN:
                    found[fields[9]] = int(fields[1].rpartition(":")[2], 16)
    return found


def held_by(pids: Iterable[int]) -> dict[str, int]:
    """Those of them that these processes have open."""
    all_ = listening()
    found: dict[str, int] = {}
    for pid in pids:
        with suppress(OSError):  # it has ended
            for path in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    inode = str(path.readlink()).removeprefix("socket:[").removesuffix("]")
                    if inode in all_:
                        found[inode] = all_[inode]
    return found
