"""The CUDA runtime as C programs see it, for tests of what torch does not call. Handles are plain integers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

NON_BLOCKING = 1
DISABLE_TIMING = 2
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
LEGACY, PER_THREAD = 0, 2

SUCCESS = 0
INVALID_VALUE = 1
INVALID_HANDLE = 400
NOT_READY = 600
ILLEGAL_ADDRESS = 700
LAUNCH_FAILURE = 719
NOT_SUPPORTED = 801
CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED, CAPTURE_MERGE, CAPTURE_UNMATCHED = 900, 901, 902, 903
CAPTURE_UNJOINED, CAPTURE_ISOLATION, CAPTURE_IMPLICIT, CAPTURED_EVENT, CAPTURE_WRONG_THREAD = 904, 905, 906, 907, 908

_HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)


class CudaError(Exception):
    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function} returned {code}")
        self.code = code


class Runtime:
    """Every function raises CudaError unless it succeeds. `call` gives the code instead."""

    def __init__(self, library: str = "libcudart.so.13") -> None:
        self._library = ctypes.CDLL(library)
        self._callbacks: list[Any] = []  # the C side keeps no reference

    def call(self, name: str, *arguments: Any) -> int:
        converted = [c_void_p(argument) if isinstance(argument, int) else argument for argument in arguments]
        return int(getattr(self._library, name)(*converted))

    def do(self, name: str, *arguments: Any) -> None:
        code = self.call(name, *arguments)
        if code != SUCCESS:
            self.call("cudaGetLastError")
            raise CudaError(name, code)

    def _make(self, name: str, *arguments: Any) -> int:
        handle = c_void_p()
        self.do(name, byref(handle), *arguments)
        return handle.value or 0

    def stream(self, flags: int = NON_BLOCKING) -> int:
        return self._make("cudaStreamCreateWithFlags", c_uint(flags))

    def event(self, flags: int = DISABLE_TIMING) -> int:
        return self._make("cudaEventCreateWithFlags", c_uint(flags))

    def malloc(self, count: int) -> int:
        return self._make("cudaMalloc", c_size_t(count))

    def malloc_async(self, count: int, stream: int) -> int:
        return self._make("cudaMallocAsync", c_size_t(count), stream)

    def host(self, count: int) -> int:
        return self._make("cudaHostAlloc", c_size_t(count), c_uint(0))

    def instantiate(self, graph: int) -> int:
        return self._make("cudaGraphInstantiateWithFlags", graph, c_ulonglong(0))

    def copy(self, to: int, source: int, count: int, stream: int) -> None:
        self.do("cudaMemcpyAsync", to, source, c_size_t(count), c_int(4), stream)

    def bytes_at(self, address: int, count: int) -> bytes:
        """Of device memory, once the streams that wait for the legacy stream have ended."""
        target = ctypes.create_string_buffer(count)
        self.do("cudaMemcpy", ctypes.addressof(target), address, c_size_t(count), c_int(2))
        return target.raw

    def fill(self, to: int, value: int, count: int, stream: int) -> None:
        self.do("cudaMemsetAsync", to, c_int(value), c_size_t(count), stream)

    def host_function(self, stream: int, function: Callable[[], object]) -> None:
        def call(_: object) -> None:
            function()

        callback = _HOST_FUNCTION(call)
        self._callbacks.append(callback)
        self.do("cudaLaunchHostFunc", stream, ctypes.cast(callback, c_void_p), 0)

    def record(self, event: int, stream: int) -> None:
        self.do("cudaEventRecord", event, stream)

    def wait(self, stream: int, event: int) -> None:
        self.do("cudaStreamWaitEvent", stream, event, c_uint(0))

    def synchronize(self, stream: int) -> None:
        self.do("cudaStreamSynchronize", stream)

    def is_idle(self, stream: int) -> bool:
        code = self.call("cudaStreamQuery", stream)
        if code not in (SUCCESS, NOT_READY):
            raise CudaError("cudaStreamQuery", code)
        self.call("cudaGetLastError")
        return code == SUCCESS

    def elapsed_ms(self, start: int, end: int) -> float:
        value = c_float()
        self.do("cudaEventElapsedTime", byref(value), start, end)
        return value.value

    def begin_capture(self, stream: int, mode: int = GLOBAL) -> None:
        self.do("cudaStreamBeginCapture", stream, c_int(mode))

    def end_capture(self, stream: int) -> int:
        graph = c_void_p()
        self.do("cudaStreamEndCapture", stream, byref(graph))
        return graph.value or 0

    def capture_status(self, stream: int) -> int:
        status = c_int()
        self.do("cudaStreamIsCapturing", stream, byref(status))
        return status.value

    def exchange_capture_mode(self, mode: int) -> int:
        value = c_int(mode)
        self.do("cudaThreadExchangeStreamCaptureMode", byref(value))
        return value.value
