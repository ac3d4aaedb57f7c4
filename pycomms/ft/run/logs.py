"""Where the output and the errors of each process go: torchrun's layout, ``<log-dir>/<job>_<random>/attempt_<n>/<local
rank>/``.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template

from pycomms.ft.run.options import Output, Std, streams_of


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Of one stream of one process.

    Attributes:
        file: None: none.
        console: lines go there as well.
        filtered: lines with one of ``filters`` go here too; None: none.
    """

    file: Path | None
    console: bool
    filtered: Path | None = None
    filters: tuple[bytes, ...] = ()

    @property
    def direct(self) -> bool:
        """The process may write to the file itself."""
        return self.file is not None and not self.console and self.filtered is None


@dataclass(frozen=True, kw_only=True)
class Destinations:
    """Of one process."""

    folder: Path
    stdout: Destination
    stderr: Destination

    @property
    def error_file(self) -> Path:
        return self.folder / "error.json"


class Logs:
    """The folders of one job on this host."""

    def __init__(self, output: Output, scratch: Path, job: str) -> None:
        """scratch: for what has to be somewhere, where the user has named no folder."""
        self._output = output
        base = output.folder
        if base is not None:
            base.mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{job.replace('/', '_')}_", dir=base or scratch)).absolute()

    def of(self, local_rank: int, incarnation: int) -> Destinations:
        """Makes the folder, if that can be: a disk that was full only when the job had begun does not end it."""
        attempt = self.folder / f"attempt_{incarnation}"
        folder = attempt / str(local_rank)
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        return Destinations(
            folder=folder,
            stdout=self._of(Std.OUT, "stdout", attempt, local_rank, self._output.stdout_filters),
            stderr=self._of(Std.ERR, "stderr", attempt, local_rank, self._output.stderr_filters),
        )

    def _of(self, std: Std, name: str, attempt: Path, local_rank: int, filters: tuple[str, ...]) -> Destination:
        tee = bool(streams_of(self._output.tee, local_rank) & std)
        redirected = bool(streams_of(self._output.redirects, local_rank) & std)
        shown = self._output.only is None or local_rank in self._output.only
        return Destination(
            file=attempt / str(local_rank) / f"{name}.log" if tee or redirected else None,
            console=shown and (tee or not redirected),
            filtered=attempt / f"filtered_{name}.log" if filters else None,
            filters=tuple(text.encode() for text in filters),
        )


def prefix_of(template: str, *, role: str, rank: int, local_rank: int, hostname: str) -> bytes:
    """What a macro does not name stays as it is."""
    text = Template(template).safe_substitute(role_name=role, rank=rank, local_rank=local_rank, hostname=hostname)
    return text.encode()
