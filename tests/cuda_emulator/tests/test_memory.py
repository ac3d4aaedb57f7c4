"""Device memory, pinned memory, pools, and what copies promise about host memory."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

import pytest

from tests.cuda_emulator import Emulator, Error

from .conftest import Hold
from .runtime import ILLEGAL_ADDRESS, INVALID_VALUE, LEGACY, CudaError, Runtime

KB = 1024
GB = 1 << 30


class Handle:
    def __init__(self, stream: int) -> None:
        self.cuda_stream = stream


def test_host_code_that_touches_device_memory_dies() -> None:
    program = (
        "import ctypes; from tests import cuda_emulator as c; c.load();"
        "p = ctypes.c_void_p(); ctypes.CDLL('libcudart.so.13').cudaMalloc(ctypes.byref(p), ctypes.c_size_t(64));"
        "ctypes.memset(p.value, 0, 1)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == -11
    assert "dereferenced a pointer to the memory of cuda:0" in done.stderr


def test_copies_go_through_the_device(cuda: Runtime) -> None:
    stream, device, other = cuda.stream(), cuda.malloc(8), cuda.malloc(8)
    source, target = ctypes.create_string_buffer(b"emulator", 8), ctypes.create_string_buffer(8)
    cuda.copy(device, ctypes.addressof(source), 8, stream)
    cuda.copy(other, device, 8, stream)
    cuda.copy(ctypes.addressof(target), other, 8, stream)
    assert target.raw == b"emulator"  # a copy to pageable memory has been done when it returns


def test_a_pageable_source_may_be_changed_at_once(cuda: Runtime, hold: Hold) -> None:
    stream, device = cuda.stream(), cuda.malloc(8)
    source = ctypes.create_string_buffer(b"original", 8)
    with hold(stream):
        cuda.copy(device, ctypes.addressof(source), 8, stream)
        source.raw = b"changed!"
    cuda.synchronize(stream)
    assert cuda.bytes_at(device, 8) == b"original"


def test_a_pinned_source_is_read_when_the_stream_gets_there(cuda: Runtime, hold: Hold) -> None:
    stream, device, pinned = cuda.stream(), cuda.malloc(8), cuda.host(8)
    ctypes.memmove(pinned, b"original", 8)
    with hold(stream):
        cuda.copy(device, pinned, 8, stream)
        ctypes.memmove(pinned, b"changed!", 8)
    cuda.synchronize(stream)
    assert cuda.bytes_at(device, 8) == b"changed!"


def test_two_dimensional_copies(cuda: Runtime) -> None:
    stream, device = cuda.stream(), cuda.malloc(64)
    cuda.fill(device, 0, 64, stream)
    source = ctypes.create_string_buffer(b"abcdef", 6)
    cuda.do(
        "cudaMemcpy2DAsync", device, c_size_t(8), ctypes.addressof(source), c_size_t(3),
        c_size_t(3), c_size_t(2), c_int(4), stream,
    )  # fmt: skip
    cuda.synchronize(stream)
    assert cuda.bytes_at(device, 16) == b"abc\0\0\0\0\0def\0\0\0\0\0"


def test_fresh_memory_is_not_zero(cuda: Runtime, emulator: Emulator) -> None:
    assert emulator.bytes_at(cuda.malloc(16), 16) == b"\xff" * 16
    assert ctypes.string_at(cuda.host(16), 16) == b"\xff" * 16


def test_work_on_freed_memory_breaks_the_device(cuda: Runtime, emulator: Emulator) -> None:
    stream, device = cuda.stream(), cuda.malloc(64)
    cuda.do("cudaFree", device)
    cuda.fill(device, 0, 64, stream)
    with pytest.raises(CudaError) as raised:
        cuda.synchronize(stream)
    assert raised.value.code == ILLEGAL_ADDRESS
    assert cuda.call("cudaMalloc", byref(c_void_p()), c_size_t(8)) == ILLEGAL_ADDRESS  # it stays
    emulator.heal()
    cuda.malloc(8)


def test_work_beyond_an_allocation_breaks_the_device(cuda: Runtime, emulator: Emulator) -> None:
    stream, device = cuda.stream(), cuda.malloc(512)
    cuda.fill(device, 0, 513, stream)
    with pytest.raises(CudaError) as raised:
        cuda.synchronize(stream)
    assert raised.value.code == ILLEGAL_ADDRESS


def test_free_waits_for_the_device(cuda: Runtime) -> None:
    stream, device = cuda.stream(), cuda.malloc(64)
    seen: list[int] = []
    cuda.host_function(stream, lambda: seen.append(1))
    cuda.do("cudaFree", device)
    assert seen == [1]


def test_free_gives_back(cuda: Runtime, emulator: Emulator) -> None:
    before = emulator.live().device_bytes
    pieces = [cuda.malloc(KB) for _ in range(5)]
    assert emulator.live().device_bytes == before + 5 * KB
    for i in (1, 3, 0, 4, 2):
        cuda.do("cudaFree", pieces[i])
    assert emulator.live().device_bytes == before
    with pytest.raises(CudaError, match=str(INVALID_VALUE)):
        cuda.do("cudaFree", pieces[0])


def test_out_of_memory(cuda: Runtime) -> None:
    with pytest.raises(CudaError) as raised:
        cuda.malloc(1 << 45)
    assert raised.value.code == Error.MEMORY_ALLOCATION
    cuda.malloc(KB)  # it is no sticky error


def test_pinned_memory_is_known_by_its_range(cuda: Runtime) -> None:
    class Attributes(ctypes.Structure):
        _fields_ = [
            ("type", c_int), ("device", c_int), ("device_pointer", c_void_p), ("host_pointer", c_void_p),
            ("reserved", ctypes.c_long * 8),
        ]  # fmt: skip

    def type_of(address: int) -> int:
        attributes = Attributes()
        cuda.do("cudaPointerGetAttributes", byref(attributes), address)
        return int(attributes.type)

    pageable = ctypes.create_string_buffer(8 * KB)
    address = ctypes.addressof(pageable)
    assert [type_of(address), type_of(cuda.host(8)), type_of(cuda.malloc(8))] == [0, 1, 2]
    cuda.do("cudaHostRegister", address, c_size_t(4 * KB), c_uint(0))
    assert [type_of(address), type_of(address + 4 * KB - 1), type_of(address + 4 * KB)] == [1, 1, 0]
    assert cuda.call("cudaHostRegister", address + KB, c_size_t(KB), c_uint(0)) == 712
    cuda.do("cudaHostUnregister", address)
    assert cuda.call("cudaHostUnregister", address) == 713
    assert type_of(address) == 0


def test_a_pool_reuses_at_once_in_the_same_stream_only(cuda: Runtime, emulator: Emulator) -> None:
    stream, other = cuda.stream(), cuda.stream()
    with emulator.held(Handle(stream)):
        first = cuda.malloc_async(KB, stream)
        cuda.do("cudaFreeAsync", first, stream)
        assert cuda.malloc_async(KB, other) != first
        assert cuda.malloc_async(KB, stream) == first
        cuda.do("cudaFreeAsync", first, stream)
    cuda.do("cudaStreamQuery", other)
    cuda.copy(first, first, 8, stream)  # the pool keeps it until a synchronization
    cuda.do("cudaEventSynchronize", cuda.event())
    cuda.synchronize(stream)


def test_a_pool_gives_memory_back_when_synchronized(cuda: Runtime, emulator: Emulator) -> None:
    stream = cuda.stream()
    cuda.do("cudaDeviceSynchronize")
    before = emulator.live().device_bytes
    for _ in range(3):
        cuda.do("cudaFreeAsync", cuda.malloc_async(3 * KB, stream), stream)
    assert emulator.live().device_bytes >= before + 3 * KB
    cuda.synchronize(stream)
    assert emulator.live().device_bytes <= before


@pytest.mark.emulator_only("what address a pool gives is its own affair")
def test_a_pool_with_a_threshold_keeps_memory(cuda: Runtime, emulator: Emulator) -> None:
    release_threshold, used = 4, 7
    pool, stream = c_void_p(), cuda.stream()
    cuda.do("cudaDeviceGetDefaultMemPool", byref(pool), c_int(0))
    cuda.do("cudaMemPoolSetAttribute", pool, c_int(release_threshold), byref(c_ulonglong(GB)))
    piece = cuda.malloc_async(5 * KB, stream)
    value = c_ulonglong()
    cuda.do("cudaMemPoolGetAttribute", pool, c_int(used), byref(value))
    assert value.value >= 5 * KB
    cuda.do("cudaFreeAsync", piece, stream)
    cuda.synchronize(stream)
    assert cuda.malloc_async(5 * KB, cuda.stream()) == piece
    cuda.do("cudaFreeAsync", piece, stream)
    cuda.do("cudaMemPoolSetAttribute", pool, c_int(release_threshold), byref(c_ulonglong(0)))
    cuda.synchronize(stream)


def test_synchronous_copies_wait_for_blocking_streams(cuda: Runtime) -> None:
    stream, device = cuda.stream(0), cuda.malloc(4)
    cuda.fill(device, 7, 4, stream)
    target = ctypes.create_string_buffer(4)
    cuda.do("cudaMemcpy", ctypes.addressof(target), device, c_size_t(4), c_int(2))
    assert target.raw == b"\7" * 4
    cuda.synchronize(LEGACY)
