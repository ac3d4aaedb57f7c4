"""What a process does to itself. Each returns how it is taken back, or None where it is not."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _environment, _gpu, _network, _tensors
from ._errors import ChaosError, NotPossibleError
from ._operation import Operation

if TYPE_CHECKING:
    from ._worker import Worker

Undo = Callable[[], None]

_ROOM_B = 32 << 20
_EVER_S = 1 << 20
_DUMPS = 64


_IN_PROGRAM = ("exception", "oom", "hang", *_tensors.CHANGES)


def needs_program(kind: str) -> bool:
    """Whether it has to happen in a thread of the program, when that comes to its next operation or step."""
    return kind in _IN_PROGRAM


def carry_out(worker: Worker, fault: dict[str, Any], operation: Operation | None) -> Undo | None:
    """Raises NotPossibleError, or what the fault is."""
    kind = fault["kind"]
    if kind in _tensors.CHANGES:
        if operation is None:
            raise NotPossibleError(f"{kind} needs an operation")
        why_not = _tensors.CHANGES[kind](operation, fault)
        if why_not:
            raise NotPossibleError(why_not)
        return None
    if kind == "slow":
        worker.be_late(fault["delay"], fault["for"])
        return lambda: worker.be_late(0.0, 0.0)
    if kind == "no-dumps":
        return _prevent_dumps(worker, fault)
    act = _ACTS.get(kind)
    return None if act is None else act(fault)  # None: the controller has done it


def _exit(fault: dict[str, Any]) -> None:
    os._exit(fault["code"])


def _raise(fault: dict[str, Any]) -> None:
    raise ChaosError("the plan wants an exception here")


def _read_nowhere(fault: dict[str, Any]) -> None:
    _leave_no_core()
    ctypes.string_at(0)


def _abort(fault: dict[str, Any]) -> None:
    _leave_no_core()
    os.abort()


def _leave_no_core() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _exhaust_memory(fault: dict[str, Any]) -> None:
    """The limit is taken back at once, so that the process can tell of the error and end."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _ROOM_B, hard))
    try:
        bytearray(4 * _ROOM_B)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _hang(fault: dict[str, Any]) -> None:
    seconds = fault["for"] or _EVER_S
    if fault["gil"]:
        # PyDLL keeps the lock while it calls. sleep() returns early where a signal comes, and counts whole seconds.
        library = ctypes.PyDLL(None)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            library.usleep(ctypes.c_uint(min(int(left * 1e6) + 1, 999_999)))
    else:
        time.sleep(seconds)


def _prevent_dumps(worker: Worker, fault: dict[str, Any]) -> Undo:
    """Where the flight recorder will write its dumps there are folders already, which it cannot write or remove.

    Links to /dev/full would be a full disk indeed, but it follows none.
    """
    folder = _environment.dump_folder()
    if folder is None:
        raise NotPossibleError("nobody has said where dumps go")
    names = [folder / f"rank{worker.rank}.{os.getpid()}.{number}.part" for number in range(1, _DUMPS + 1)]
    for name in names:
        with contextlib.suppress(FileExistsError):
            name.mkdir()

    def take_back() -> None:
        for name in names:
            with contextlib.suppress(OSError):
                name.rmdir()

    return take_back


def _take_descriptors(fault: dict[str, Any]) -> Undo:
    probe = os.open(os.devnull, os.O_RDONLY)
    os.close(probe)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + fault["left"], hard))
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


_ACTS: dict[str, Callable[[dict[str, Any]], Undo | None]] = {
    "exit": _exit,
    "exception": _raise,
    "segfault": _read_nowhere,
    "abort": _abort,
    "oom": _exhaust_memory,
    "hang": _hang,
    "descriptors": _take_descriptors,
    **_network.ACTS,
    **_gpu.ACTS,
}
