"""The emulator's own C functions (emulator.h), with their types."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint64, c_void_p


class Live(ctypes.Structure):
    """struct cuemu_live."""

    _fields_ = [
        (name, c_size_t)
        for name in ("streams", "events", "graphs", "graph_execs", "user_objects", "pools", "device_bytes")
    ]


VISIT = ctypes.CFUNCTYPE(None, c_char_p, c_uint64, c_void_p)

_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "cuemu_bytes": (c_void_p, [c_void_p]),
    "cuemu_device_of": (c_int, [c_void_p]),
    "cuemu_check": (c_int, [c_void_p, c_size_t]),
    "cuemu_set_delays": (None, [c_uint64, c_uint64, c_uint64]),
    "cuemu_inject": (c_int, [c_char_p, c_int, c_uint64, c_uint64]),
    "cuemu_inject_work": (c_int, [c_int, c_int, c_uint64, c_uint64]),
    "cuemu_fail_device": (c_int, [c_int, c_int, c_char_p]),
    "cuemu_heal_device": (c_int, [c_int]),
    "cuemu_clear_faults": (None, []),
    "cuemu_calls": (c_uint64, [c_char_p]),
    "cuemu_reset_calls": (None, []),
    "cuemu_each_call": (None, [VISIT, c_void_p]),
    "cuemu_work_count": (c_uint64, [c_int]),
    "cuemu_hold": (c_int, [c_void_p]),
    "cuemu_release": (c_int, [c_void_p]),
    "cuemu_count_live": (None, [POINTER(Live)]),
    "cudaGetErrorString": (c_char_p, [c_int]),
}


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Gives the functions of a loaded library their types."""
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library
