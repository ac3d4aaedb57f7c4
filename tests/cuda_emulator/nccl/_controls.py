"""What a test can tell the emulated libnccl to do, and ask it: faults.h with types. Works from any thread.

A rank's death needs no function: kill its process.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from enum import IntEnum

from ._build import library

FOREVER = -1


class Point(IntEnum):
    """Where a call can be kept in progress."""

    INIT = 0  # ncclCommInitRank and its variants, ncclCommGrow of a newcomer
    SPLIT = 1  # ncclCommSplit, ncclCommShrink, ncclCommGrow of a member
    OPERATION = 2  # a collective, send or receive; of a group: its end


class Result(IntEnum):
    """NCCL's results."""

    SUCCESS = 0
    UNHANDLED_CUDA_ERROR = 1
    SYSTEM_ERROR = 2
    INTERNAL_ERROR = 3
    INVALID_ARGUMENT = 4
    INVALID_USAGE = 5
    REMOTE_ERROR = 6
    IN_PROGRESS = 7
    TIMEOUT = 8


@dataclass(frozen=True, kw_only=True)
class LiveObjects:
    """What the program has made and not given back."""

    communicators: int
    windows: int
    registrations: int


class _Live(ctypes.Structure):
    _fields_ = [(name, c_size_t) for name in ("communicators", "windows", "registrations")]


_VISIT = CFUNCTYPE(None, c_char_p, c_uint64, c_void_p)

_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "ncclEmulatorStayInProgress": (c_int, [c_int, c_int64, c_uint64, c_uint64]),
    "ncclEmulatorFailOperation": (c_int, [c_uint64, c_int, c_char_p]),
    "ncclEmulatorAbortWaitsForDevice": (None, [c_int]),
    "ncclEmulatorClearFaults": (None, []),
    "ncclEmulatorStruck": (c_uint64, []),
    "ncclEmulatorCalls": (c_uint64, [c_char_p]),
    "ncclEmulatorResetCalls": (None, []),
    "ncclEmulatorEachCall": (None, [_VISIT, c_void_p]),
    "ncclEmulatorCountLive": (None, [POINTER(_Live)]),
}


class Nccl:
    """The one emulated libnccl of this process. Made by load()."""

    def __init__(self, loaded: ctypes.CDLL) -> None:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
        self.library = loaded

    # --- faults

    def stay_in_progress(self, point: Point, *, polls: int = FOREVER, after: int = 0, times: int = 1) -> None:
        """Of the coming calls at `point`, `after` pass and the `times` after them stay in progress.

        They begin with the poll (ncclCommGetAsyncError) that follows `polls` others; FOREVER: never. Only nonblocking
        communicators can be in progress. A blocking one returns an internal error after a minute when it is for ever,
        and takes no notice otherwise.
        """
        self._check(self.library.ncclEmulatorStayInProgress(point, polls, after, times))

    def fail_operation(self, result: Result, *, after: int = 0, reason: str | None = None) -> None:
        """The operation after `after` others never ends, and `result` is its communicator's asynchronous error."""
        text = None if reason is None else reason.encode()
        self._check(self.library.ncclEmulatorFailOperation(after, result, text))

    def hang_operation(self, *, after: int = 0) -> None:
        """The operation after `after` others never ends; nothing tells why."""
        self.fail_operation(Result.SUCCESS, after=after)

    def abort_waits_for_device(self) -> None:
        """From now on an abort returns once all work on its device has ended, that of other communicators included.

        Real NCCL frees device memory in it, and cudaFree waits so. In a group all are told to stop before one waits.
        """
        self.library.ncclEmulatorAbortWaitsForDevice(1)

    def clear_faults(self) -> None:
        """Withdraws what has not struck yet. What is stuck stays so until it is aborted."""
        self.library.ncclEmulatorClearFaults()

    def faults_struck(self) -> int:
        return int(self.library.ncclEmulatorStruck())

    # --- counters

    def calls(self, function: str) -> int:
        """How often the program has called an nccl* function since reset_calls()."""
        return int(self.library.ncclEmulatorCalls(function.encode()))

    def all_calls(self) -> dict[str, int]:
        found: dict[str, int] = {}

        def visit(function: bytes, calls: int, _: object) -> None:
            found[function.decode()] = calls

        self.library.ncclEmulatorEachCall(_VISIT(visit), None)
        return found

    def reset_calls(self) -> None:
        self.library.ncclEmulatorResetCalls()

    def live(self) -> LiveObjects:
        live = _Live()
        self.library.ncclEmulatorCountLive(ctypes.byref(live))
        return LiveObjects(communicators=live.communicators, windows=live.windows, registrations=live.registrations)

    def _check(self, refused: int) -> None:
        if refused != 0:
            raise ValueError("the emulated libnccl cannot do that: point, polls or result out of range")


_loaded: Nccl | None = None


def load() -> Nccl:
    """Loads the library into this process, building it first if need be. The second call returns the first's.

    Raises RuntimeError when torch has been imported without it: it would have bound to the real libnccl.
    """
    global _loaded
    if _loaded is not None:
        return _loaded
    if "torch" in sys.modules and not hasattr(ctypes.CDLL(None), "ncclEmulatorStruck"):
        raise RuntimeError(
            "torch was imported before the emulated libnccl was loaded: load it first, in a fresh process"
        )
    _loaded = Nccl(ctypes.CDLL(str(library()), ctypes.RTLD_GLOBAL))
    return _loaded
