"""A stream that stands still until it is told to go on.

On the emulator a host function waits in it. On a GPU host functions of different streams may run one after the other:
there the stream itself waits for a value in pinned memory.
"""

from __future__ import annotations

import ctypes
import threading
from abc import ABC, abstractmethod
from ctypes import c_uint32, c_uint64, c_void_p

from typing_extensions import Self

from .runtime import CudaError, Runtime

PATIENCE = 20.0  # of a wait that is expected to end at once
_REAL_PATIENCE = 5.0  # then the gate opens by itself: something waits that should not, and the test fails
_AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ


class Gate(ABC):
    @abstractmethod
    def open(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()


class EmulatedGate(Gate):
    def __init__(self, cuda: Runtime, stream: int) -> None:
        self._go = threading.Event()
        cuda.host_function(stream, lambda: self._go.wait(PATIENCE))

    def open(self) -> None:
        self._go.set()


class RealGate(Gate):
    def __init__(self, driver: ctypes.CDLL, stream: int, address: int) -> None:
        """`address`: of four bytes of pinned memory, of which each gate has its own."""
        self._word = c_uint32.from_address(address)
        self._word.value = 0
        code = driver.cuStreamWaitValue32_v2(c_void_p(stream), c_uint64(address), c_uint32(1), c_uint32(_AT_LEAST))
        if code != 0:
            raise CudaError("cuStreamWaitValue32", code)
        self._timer = threading.Timer(_REAL_PATIENCE, self.open)
        self._timer.start()

    def open(self) -> None:
        self._word.value = 1
        self._timer.cancel()
