"""Puts the clocks of processes forward or back: by files that they read (`_inside/_pycomms_chaos/_clock.py`)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_ALL = "all"


class Shifted:
    """A clock that is wrong from now on."""

    def __init__(self, door: Path, pid: int, seconds: float, *, whole_host: bool) -> None:
        """whole_host: that of all processes of the job, those too that are started later.

        Raises FileNotFoundError where the process does not read it.
        """
        if not (door / f"clock.{pid}").exists():
            raise FileNotFoundError(f"process {pid} is no Python that looks for its clock")
        self._path = door / f"clock.{_ALL if whole_host else pid}"
        _write(self._path, seconds)

    def end(self) -> None:
        with suppress(OSError):  # the folder is gone already
            _write(self._path, 0.0)


def _write(path: Path, seconds: float) -> None:
    """Whoever reads finds all or nothing."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(f"{seconds}")
    new.replace(path)
