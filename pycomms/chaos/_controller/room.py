"""Takes from processes what they write to, from outside and without root: room (RLIMIT_FSIZE), or a folder."""

from __future__ import annotations

import resource
from contextlib import suppress
from pathlib import Path

_NONE = 0


class Limited:
    """A process whose files cannot grow; what it starts meanwhile inherits that."""

    def __init__(self, pid: int) -> None:
        """Raises OSError where it has ended, or belongs to somebody else."""
        self._pid = pid
        self._soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (_NONE, hard))

    def end(self) -> None:
        for pid in (self._pid, *_children(self._pid)):
            with suppress(OSError):  # it has ended
                soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                if soft == _NONE:
                    resource.prlimit(pid, resource.RLIMIT_FSIZE, (self._soft, hard))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, path.read_text().split())
    return found


class Displaced:
    """A folder in whose place there is a file: nothing can be made in it, by root neither. What is open stays so."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self._folder = folder
        self._away = folder.rename(folder.with_name(f"{folder.name}.away"))
        folder.touch()

    def end(self) -> None:
        with suppress(OSError):  # whoever it belonged to has removed it
            self._folder.unlink()
            self._away.rename(self._folder)
