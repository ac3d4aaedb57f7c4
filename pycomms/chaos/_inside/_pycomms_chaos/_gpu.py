"""Faults of a GPU and of NCCL, where both are emulated: tests/cuda_emulator says what they can be told."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from ._errors import NotPossibleError

Undo = Callable[[], None]

_DEVICE = 0  # of each worker, the one that it uses
_LAUNCH_FAILURE = 719
_POINTS = {"making": 0, "splitting": 1, "call": 2}
_FOR_EVER = -1
_NEXT, _ONCE = 0, 1


def _emulated(function: str, *types: Any) -> Any:
    """A function of the emulated libraries. Raises NotPossibleError where there are none."""
    try:
        found = getattr(ctypes.CDLL(None), function)
    except AttributeError:
        raise NotPossibleError("the process runs on no emulated CUDA") from None
    found.argtypes = types
    return found


def _delay(fault: dict[str, Any]) -> Undo:
    set_delays = _emulated("cuemu_set_delays", ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64)
    set_delays(int(fault["delay"] * 1e6), 0, 0)
    return lambda: set_delays(0, 0, 0)


def _break(fault: dict[str, Any]) -> None:
    fail = _emulated("cuemu_fail_device", ctypes.c_int, ctypes.c_int, ctypes.c_char_p)
    fail(_DEVICE, _LAUNCH_FAILURE, b"the plan wants it")


def _stick(fault: dict[str, Any]) -> None:
    if fault["where"] == "stream":
        fail = _emulated("ncclEmulatorFailOperation", ctypes.c_uint64, ctypes.c_int, ctypes.c_char_p)
        fail(_NEXT, 0, None)
    else:
        types = (ctypes.c_int, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint64)
        _emulated("ncclEmulatorStayInProgress", *types)(_POINTS[fault["where"]], _FOR_EVER, _NEXT, _ONCE)


ACTS: dict[str, Callable[[dict[str, Any]], Undo | None]] = {
    "gpu-late": _delay,
    "gpu-error": _break,
    "nccl-stuck": _stick,
}
