"""The flight recorder of this process: one ring, opened with the first group, and its dumps."""

from __future__ import annotations

import atexit
import faulthandler
import multiprocessing.util
import os
import signal
import sys
import warnings
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

import torch

from pycomms import _C
from pycomms._config import config, launch
from pycomms._version import __version__
from pycomms.flight_recorder import _places

_SECONDS_AT_EXIT = 2.0


def open_ring(group_rank: int | None = None) -> Path | None:
    """Opens the ring of this process, once; a forked child opens one of its own.

    group_rank: the rank in the default group, if that is the one that is being made: launchers need not tell ours.
    Returns its path, or None where nothing is recorded: it was turned off, or there is no room. Never raises for that:
    a job does not fail for want of its record.
    """
    return _open(os.getpid(), group_rank)


def prepare() -> None:
    """What of opening a ring takes long, for a process that has time for it now and will have none later."""
    if config().fr_entries > 0:
        with suppress(OSError):  # it will be met again, and told
            _base()


@cache
def _base() -> Path:
    """The folder of all jobs, cleaned up once."""
    base = _places.base_folder(config().fr_dir)
    _places.make_private(base)
    _places.clean_up(base)
    return base


@cache
def _open(pid: int, group_rank: int | None) -> Path | None:
    if ring_path() is not None:
        return ring_path()
    settings, launched = config(), launch()
    if settings.fr_entries == 0:
        return None
    rank = launched.rank if launched.rank >= 0 or group_rank is None else group_rank
    job = _places.job_name(settings.fr_job, launched.job)
    name = f"rank{rank}" if rank >= 0 else "rank"
    try:
        folder = _base() / job
        _places.make_private(folder)
        _C.recorder_open(
            path=str(folder / f"{name}.{pid}.ring"),
            entries=settings.fr_entries,
            rank=rank,
            world_size=launched.world_size,
            attempt=launched.attempt,
            job=job,
            library=f"pycomms {__version__}, torch {torch.__version__}",
            internal_folders=_internal(),
            stacks=settings.fr_stacks,
        )
    except OSError as error:
        warnings.warn(f"pycomms: nothing is recorded: {error}", RuntimeWarning, stacklevel=2)
        return None
    try:
        dumps = _dump_folder(folder)
    except OSError as error:
        warnings.warn(f"pycomms: dumps go to {folder}: {error}", RuntimeWarning, stacklevel=2)
        dumps = folder
    _C.recorder_set_up_dumps(str(dumps), settings.fr_dumps, _write_stacks)
    _watch(settings.fr_signal)
    return ring_path()


def _internal() -> list[str]:
    """What the files begin with whose frames are not the user's: ours, torch's, and of what wraps torch's functions."""
    packages = [str(Path(module.__file__ or "").parent) + os.sep for module in (torch, _C)]
    wrappers = (find_spec(name) for name in ("contextlib", "functools", "typing_extensions"))
    return [*packages, *(spec.origin for spec in wrappers if spec is not None and spec.origin is not None)]


def ring_path() -> Path | None:
    """The file that this process records into; None when it does not."""
    path = _C.recorder_path()
    return None if path is None else Path(path)


def dump(reason: str = "asked for by the program", *, folder: str | os.PathLike[str] | None = None) -> Path:
    """Writes what this process has recorded into a file of its own, which later operations do not overwrite.

    The stacks of all threads are written beside it, as ``….stacks``.

    Args:
        reason: is kept in the dump.
        folder: where; by default ``PYCOMMS_FR_DUMP_DIR``, or where the ring lies.

    Returns:
        The path of the dump.

    Raises:
        RuntimeError: this process records nothing.
        OSError: it cannot be written. The ring is as it was.
    """
    ring = ring_path()
    if ring is None:
        raise RuntimeError(
            "this process has no flight recorder: make a group, or call attach(), first; if it did, it was warned that"
            " nothing is recorded, or PYCOMMS_FR_ENTRIES is 0"
        )
    target = Path(folder) if folder is not None else _dump_folder(ring.parent)
    path = Path(_C.recorder_dump(str(target), reason))
    _write_stacks(str(path))
    return path


def _dump_folder(ring_folder: Path) -> Path:
    configured = config().fr_dump_dir
    if not configured:
        return ring_folder
    folder = Path(configured)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write_stacks(path: str) -> None:
    with Path(path).with_suffix(".stacks").open("w") as file:
        faulthandler.dump_traceback(file, all_threads=True)


def _watch(wanted_signal: str) -> None:
    """What makes a dump beside failures of groups."""
    _close_at_exit(os.getpid())
    _dump_uncaught()
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        _C.recorder_note_signal(signal.SIGTERM)
    if wanted_signal:
        _C.recorder_dump_on_signal(signal.Signals[wanted_signal])


@cache
def _close_at_exit(pid: int) -> None:
    """Once in each process: a forked child has none of what its parent had registered with multiprocessing."""
    atexit.register(_C.recorder_close, _SECONDS_AT_EXIT)
    # Processes that multiprocessing forks end without atexit.
    multiprocessing.util.Finalize(None, _close_child, exitpriority=0)


def _close_child() -> None:
    """At the end of a child of multiprocessing, which catches what its target raises: no excepthook is told of it."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        error = error.__context__ if error.code else None  # torch's spawn turns any exception into an exit code
    if error is not None:
        _dump_for(type(error), error)
    _C.recorder_close(_SECONDS_AT_EXIT)


@cache
def _dump_uncaught() -> None:
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        _dump_for(kind, error)
        before(kind, error, trace)

    sys.excepthook = hook


def _dump_for(kind: type[BaseException], error: BaseException) -> None:
    if ring_path() is not None and not issubclass(kind, KeyboardInterrupt):
        try:
            dump(f"uncaught {kind.__name__}: {error}")
        except (OSError, RuntimeError) as why:
            print(f"pycomms: no dump of the flight recorder: {why}", file=sys.stderr)
