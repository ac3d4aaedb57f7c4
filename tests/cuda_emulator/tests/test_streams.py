"""The order of device work: streams, events, host functions, the legacy stream."""

from __future__ import annotations

import ctypes
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.cuda_emulator import Emulator

from .conftest import Hold
from .gate import PATIENCE
from .runtime import INVALID_HANDLE, LEGACY, NON_BLOCKING, PER_THREAD, CudaError, Runtime

BLOCKING = 0


def test_work_of_a_stream_runs_in_order(cuda: Runtime) -> None:
    stream = cuda.stream()
    seen: list[int] = []
    for i in range(50):
        cuda.host_function(stream, partial(seen.append, i))
    cuda.synchronize(stream)
    assert seen == list(range(50))
    assert cuda.is_idle(stream)


def test_streams_do_not_wait_for_each_other(cuda: Runtime, hold: Hold) -> None:
    slow, fast = cuda.stream(), cuda.stream()
    gate = hold(slow)
    done = threading.Event()
    cuda.host_function(fast, done.set)
    assert done.wait(PATIENCE)
    assert not cuda.is_idle(slow)
    gate.open()
    cuda.synchronize(slow)


def test_an_event_orders_two_streams(cuda: Runtime, hold: Hold) -> None:
    first, second, event = cuda.stream(), cuda.stream(), cuda.event()
    seen: list[str] = []
    gate = hold(first)
    cuda.host_function(first, lambda: seen.append("first"))
    cuda.record(event, first)
    cuda.wait(second, event)
    cuda.host_function(second, lambda: seen.append("second"))
    assert cuda.call("cudaEventQuery", event) == 600
    gate.open()
    cuda.synchronize(second)
    assert seen == ["first", "second"]
    assert cuda.call("cudaEventQuery", event) == 0


def test_a_wait_is_for_the_recording_that_it_saw(cuda: Runtime, hold: Hold) -> None:
    early, late, waiter, event = cuda.stream(), cuda.stream(), cuda.stream(), cuda.event()
    cuda.record(event, early)
    cuda.wait(waiter, event)
    gate = hold(late)
    cuda.record(event, late)
    cuda.synchronize(waiter)  # does not wait for the second recording
    gate.open()
    cuda.synchronize(late)


def test_an_event_that_was_never_recorded_is_no_obstacle(cuda: Runtime) -> None:
    stream, event = cuda.stream(), cuda.event()
    assert cuda.call("cudaEventQuery", event) == 0
    cuda.wait(stream, event)
    cuda.synchronize(stream)


def test_the_legacy_stream_comes_after_blocking_streams(cuda: Runtime, hold: Hold) -> None:
    blocking, other = cuda.stream(BLOCKING), cuda.stream(NON_BLOCKING)
    seen: list[str] = []
    gate = hold(blocking)
    cuda.host_function(blocking, lambda: seen.append("blocking"))
    cuda.host_function(LEGACY, lambda: seen.append("legacy"))
    cuda.host_function(other, lambda: seen.append("non-blocking"))
    cuda.synchronize(other)
    assert seen == ["non-blocking"]
    gate.open()
    cuda.synchronize(LEGACY)
    assert seen == ["non-blocking", "blocking", "legacy"]


def test_blocking_streams_come_after_the_legacy_stream(cuda: Runtime, hold: Hold) -> None:
    blocking, other = cuda.stream(BLOCKING), cuda.stream(NON_BLOCKING)
    seen: list[str] = []
    gate = hold(LEGACY)
    cuda.host_function(LEGACY, lambda: seen.append("legacy"))
    cuda.host_function(blocking, lambda: seen.append("blocking"))
    cuda.synchronize(other)
    assert seen == []
    gate.open()
    cuda.synchronize(blocking)
    assert seen == ["legacy", "blocking"]


def test_synchronizing_the_legacy_stream_waits_for_blocking_streams(cuda: Runtime) -> None:
    blocking = cuda.stream(BLOCKING)
    seen: list[str] = []
    cuda.host_function(blocking, lambda: seen.append("blocking"))
    cuda.synchronize(LEGACY)
    assert seen == ["blocking"]


def test_the_per_thread_stream_is_a_thread_s_own(cuda: Runtime, hold: Hold) -> None:
    gate = hold(PER_THREAD)
    done = threading.Event()

    def elsewhere() -> None:
        cuda.host_function(PER_THREAD, done.set)
        cuda.synchronize(PER_THREAD)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(PATIENCE)
    assert done.is_set()
    gate.open()
    cuda.synchronize(PER_THREAD)


def test_a_destroyed_stream_finishes_its_work(cuda: Runtime, hold: Hold) -> None:
    stream, event = cuda.stream(), cuda.event()
    seen: list[int] = []
    gate = hold(stream)
    for i in range(10):
        cuda.host_function(stream, partial(seen.append, i))
    cuda.record(event, stream)
    cuda.do("cudaStreamDestroy", stream)
    assert seen == []
    gate.open()
    cuda.do("cudaEventSynchronize", event)
    assert seen == list(range(10))


@pytest.mark.emulator_only("a handle that was destroyed may be anything")
def test_a_stale_handle_is_an_error(cuda: Runtime) -> None:
    stream, event = cuda.stream(), cuda.event()
    cuda.do("cudaStreamDestroy", stream)
    cuda.do("cudaEventDestroy", event)
    for name, handle in [("cudaStreamSynchronize", stream), ("cudaStreamDestroy", stream), ("cudaEventQuery", event)]:
        with pytest.raises(CudaError) as raised:
            cuda.do(name, handle)
        assert raised.value.code == INVALID_HANDLE


@pytest.mark.emulator_only("counts the threads of the emulator")
def test_streams_made_and_destroyed_while_busy_leave_no_thread(cuda: Runtime) -> None:
    def threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    done: list[int] = []
    before = threads()
    for i in range(100):
        stream = cuda.stream()
        cuda.host_function(stream, partial(done.append, i))
        cuda.do("cudaStreamDestroy", stream)
    cuda.do("cudaDeviceSynchronize")
    assert sorted(done) == list(range(100))
    cuda.do("cudaStreamDestroy", cuda.stream())  # takes the ended threads with it
    assert threads() <= before + 1


def test_elapsed_time_is_that_of_the_stream(cuda: Runtime, hold: Hold) -> None:
    stream, start, end = cuda.stream(), cuda.event(0), cuda.event(0)
    cuda.record(start, stream)
    gate = hold(stream)
    cuda.record(end, stream)
    with pytest.raises(CudaError, match="600"):
        cuda.elapsed_ms(start, end)
    gate.open()
    cuda.synchronize(stream)
    assert 0 < cuda.elapsed_ms(start, end) < PATIENCE * 1000
    with pytest.raises(CudaError, match="400"):
        cuda.elapsed_ms(start, cuda.event())  # timing disabled


def test_a_held_stream_begins_nothing(cuda: Runtime, emulator: Emulator) -> None:
    class Handle:
        cuda_stream = cuda.stream()

    seen: list[int] = []
    other = cuda.stream()
    with emulator.held(Handle()):
        cuda.host_function(Handle.cuda_stream, lambda: seen.append(1))
        cuda.synchronize(other)
        assert seen == []
    cuda.synchronize(Handle.cuda_stream)
    assert seen == [1]


def test_a_host_function_reaches_device_memory(cuda: Runtime, emulator: Emulator) -> None:
    """The way of a libnccl stand-in: emulator.h."""
    stream, device = cuda.stream(), cuda.malloc(8)
    library = ctypes.CDLL(None)  # nothing was linked: the symbols are global
    library.cuemu_bytes.restype = ctypes.c_void_p
    cuda.fill(device, 0, 8, stream)
    cuda.host_function(stream, lambda: ctypes.memmove(library.cuemu_bytes(ctypes.c_void_p(device)), b"from NCCL", 8))
    cuda.synchronize(stream)
    assert emulator.bytes_at(device, 8) == b"from NCC"
