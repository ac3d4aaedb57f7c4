"""What the control groups of this process allow it, of version 1 and 2. Reads files below a given folder, no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_NO_LIMIT = 1 << 60
"""Version 1 says a number that is near 2**63."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """memory, used: bytes, of the group with the least room. cpus: how many cores' time. None: not limited."""

    memory: int | None
    used: int | None
    cpus: float | None


def look(root: Path = Path("/sys/fs/cgroup"), own: str = "/proc/self/cgroup") -> Limits:
    try:
        groups = Path(own).read_text()
    except OSError:
        groups = ""
    memory: tuple[int, int] | None = None
    cpus: float | None = None
    for folder in _folders(groups, root):
        limit = _number(folder, "memory.max", "memory.limit_in_bytes")
        if limit is not None and limit < _NO_LIMIT:
            used = _number(folder, "memory.current", "memory.usage_in_bytes") or 0
            if memory is None or limit - used < memory[0] - memory[1]:
                memory = (limit, used)
        quota = _quota(folder)
        if quota is not None and (cpus is None or quota < cpus):
            cpus = quota
    return Limits(memory=memory and memory[0], used=memory and memory[1], cpus=cpus)


def _folders(groups: str, root: Path) -> Iterator[Path]:
    """Of all groups that this process is in, and of those around them: a limit of any of them holds."""
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        tops = [root] if not controllers else [root / name for name in (controllers, *controllers.split(","))]
        own = PurePosixPath(path.lstrip("/"))
        for top in tops:
            for part in (own, *own.parents):
                yield top / part


def _read(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text().strip()
    except OSError:
        return ""


def _number(folder: Path, *names: str) -> int | None:
    texts = (_read(folder, name) for name in names)
    return next((int(text) for text in texts if text.isdecimal()), None)


def _quota(folder: Path) -> float | None:
    words = _read(folder, "cpu.max").split()  # "max 100000"
    if not words:
        words = [_read(folder, "cpu.cfs_quota_us"), _read(folder, "cpu.cfs_period_us")]
    if len(words) != 2 or not all(word.isdecimal() for word in words) or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])
