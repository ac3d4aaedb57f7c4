"""Stream capture: what is recorded, what it forbids, and what graphs keep alive."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from ctypes import byref, c_size_t, c_uint, c_void_p

import pytest

from tests.cuda_emulator import Emulator

from .gate import PATIENCE
from .runtime import (
    CAPTURE_IMPLICIT,
    CAPTURE_INVALIDATED,
    CAPTURE_ISOLATION,
    CAPTURE_MERGE,
    CAPTURE_UNJOINED,
    CAPTURE_UNMATCHED,
    CAPTURE_UNSUPPORTED,
    CAPTURE_WRONG_THREAD,
    CAPTURED_EVENT,
    GLOBAL,
    LEGACY,
    RELAXED,
    THREAD_LOCAL,
    CudaError,
    Runtime,
)

ACTIVE, INVALIDATED = 1, 2


@pytest.fixture
def stream(cuda: Runtime) -> Iterator[int]:
    made = cuda.stream()
    yield made
    cuda.do("cudaStreamDestroy", made)  # ends a capture that a test has left behind


def refused(cuda: Runtime, code: int, name: str, *arguments: object) -> None:
    with pytest.raises(CudaError) as raised:
        cuda.do(name, *arguments)
    assert raised.value.code == code


def test_captured_work_runs_with_each_launch(cuda: Runtime, stream: int) -> None:
    seen: list[str] = []
    cuda.begin_capture(stream)
    assert cuda.capture_status(stream) == ACTIVE
    cuda.host_function(stream, lambda: seen.append("a"))
    cuda.host_function(stream, lambda: seen.append("b"))
    execution = cuda.instantiate(cuda.end_capture(stream))
    assert seen == []
    cuda.do("cudaGraphLaunch", execution, stream)
    cuda.do("cudaGraphLaunch", execution, stream)
    cuda.do("cudaGraphExecDestroy", execution)  # while it may be running
    cuda.synchronize(stream)
    assert seen == ["a", "b", "a", "b"]


def test_a_copy_reads_its_source_at_launch(cuda: Runtime, stream: int) -> None:
    device = cuda.malloc(4)
    source = ctypes.create_string_buffer(b"once", 4)
    cuda.begin_capture(stream)
    cuda.copy(device, ctypes.addressof(source), 4, stream)
    execution = cuda.instantiate(cuda.end_capture(stream))
    source.raw = b"more"
    cuda.do("cudaGraphLaunch", execution, stream)
    cuda.synchronize(stream)
    assert cuda.bytes_at(device, 4) == b"more"


def test_an_event_takes_another_stream_into_the_capture(cuda: Runtime, stream: int) -> None:
    side, fork, join = cuda.stream(), cuda.event(), cuda.event()
    seen: list[str] = []
    cuda.begin_capture(stream)
    cuda.host_function(stream, lambda: seen.append("origin"))
    cuda.record(fork, stream)
    cuda.wait(side, fork)
    assert cuda.capture_status(side) == ACTIVE
    cuda.host_function(side, lambda: seen.append("side"))
    cuda.record(join, side)
    cuda.wait(stream, join)
    graph = cuda.end_capture(stream)
    assert cuda.capture_status(side) == 0
    count = c_size_t()
    cuda.do("cudaGraphGetNodes", graph, 0, byref(count))
    assert count.value == 2
    cuda.do("cudaGraphLaunch", cuda.instantiate(graph), side)
    cuda.synchronize(side)
    assert seen == ["origin", "side"]


def test_unjoined_work_fails_the_capture(cuda: Runtime, stream: int) -> None:
    side, fork = cuda.stream(), cuda.event()
    cuda.begin_capture(stream)
    cuda.record(fork, stream)
    cuda.wait(side, fork)
    cuda.host_function(side, lambda: None)
    refused(cuda, CAPTURE_UNJOINED, "cudaStreamEndCapture", stream, byref(c_void_p()))
    assert cuda.capture_status(stream) == 0


@pytest.mark.parametrize("name", ["cudaStreamSynchronize", "cudaStreamQuery"])
def test_a_capturing_stream_cannot_be_waited_for(cuda: Runtime, stream: int, name: str) -> None:
    cuda.begin_capture(stream, RELAXED)
    refused(cuda, CAPTURE_UNSUPPORTED, name, stream)
    assert cuda.capture_status(stream) == INVALIDATED
    with pytest.raises(CudaError, match=str(CAPTURE_INVALIDATED)):
        cuda.host_function(stream, lambda: None)
    refused(cuda, CAPTURE_INVALIDATED, "cudaStreamEndCapture", stream, byref(c_void_p()))


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
def test_allocation_is_refused_during_capture(cuda: Runtime, stream: int, mode: int) -> None:
    cuda.begin_capture(stream, mode)
    refused(cuda, CAPTURE_UNSUPPORTED, "cudaMalloc", byref(c_void_p()), c_size_t(8))
    refused(cuda, CAPTURE_INVALIDATED, "cudaStreamEndCapture", stream, byref(c_void_p()))


def test_a_thread_in_relaxed_mode_may_allocate(cuda: Runtime, stream: int) -> None:
    cuda.begin_capture(stream)
    before = cuda.exchange_capture_mode(RELAXED)
    cuda.malloc(8)
    assert cuda.exchange_capture_mode(before) == RELAXED
    cuda.end_capture(stream)


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
def test_what_other_threads_may_do(cuda: Runtime, stream: int, mode: int) -> None:
    code: list[int] = []
    event = cuda.event()
    cuda.begin_capture(stream, mode)
    thread = threading.Thread(target=lambda: code.append(cuda.call("cudaEventQuery", event)))
    thread.start()
    thread.join(20)
    if mode == GLOBAL:
        assert code == [CAPTURE_UNSUPPORTED]
        refused(cuda, CAPTURE_INVALIDATED, "cudaStreamEndCapture", stream, byref(c_void_p()))
    else:
        assert code == [0]
        cuda.end_capture(stream)


def test_another_thread_cannot_end_it(cuda: Runtime, stream: int) -> None:
    code: list[int] = []
    cuda.begin_capture(stream)
    thread = threading.Thread(target=lambda: code.append(cuda.call("cudaStreamEndCapture", stream, byref(c_void_p()))))
    thread.start()
    thread.join(20)
    assert code == [CAPTURE_WRONG_THREAD]
    cuda.end_capture(stream)


def test_a_wait_on_uncaptured_work_is_refused(cuda: Runtime, stream: int) -> None:
    event = cuda.event()
    cuda.record(event, cuda.stream())
    cuda.begin_capture(stream)
    refused(cuda, CAPTURE_ISOLATION, "cudaStreamWaitEvent", stream, event, c_uint(0))
    refused(cuda, CAPTURE_INVALIDATED, "cudaStreamEndCapture", stream, byref(c_void_p()))


def test_two_captures_do_not_merge(cuda: Runtime, stream: int) -> None:
    other, event = cuda.stream(), cuda.event()
    cuda.begin_capture(stream)
    cuda.begin_capture(other)
    cuda.record(event, other)
    refused(cuda, CAPTURE_MERGE, "cudaStreamWaitEvent", stream, event, c_uint(0))
    cuda.end_capture(other)
    cuda.end_capture(stream)


def test_only_the_origin_ends_the_capture(cuda: Runtime, stream: int) -> None:
    side, fork = cuda.stream(), cuda.event()
    cuda.begin_capture(stream)
    cuda.record(fork, stream)
    cuda.wait(side, fork)
    refused(cuda, CAPTURE_UNMATCHED, "cudaStreamEndCapture", side, byref(c_void_p()))
    cuda.end_capture(stream)


def test_a_captured_event_has_no_state(cuda: Runtime, stream: int) -> None:
    event = cuda.event()
    cuda.begin_capture(stream, THREAD_LOCAL)
    cuda.record(event, stream)
    before = cuda.exchange_capture_mode(RELAXED)
    refused(cuda, CAPTURED_EVENT, "cudaEventQuery", event)
    cuda.exchange_capture_mode(before)
    cuda.end_capture(stream)
    refused(cuda, CAPTURED_EVENT, "cudaEventSynchronize", event)


def test_the_legacy_stream_cannot_be_captured(cuda: Runtime) -> None:
    refused(cuda, CAPTURE_UNSUPPORTED, "cudaStreamBeginCapture", LEGACY, c_uint(GLOBAL))


def test_the_legacy_stream_is_closed_while_a_blocking_stream_captures(cuda: Runtime) -> None:
    blocking = cuda.stream(0)
    cuda.begin_capture(blocking, RELAXED)
    refused(cuda, CAPTURE_IMPLICIT, "cudaMemsetAsync", cuda.malloc(8), c_uint(0), c_size_t(8), LEGACY)
    refused(cuda, CAPTURE_INVALIDATED, "cudaStreamEndCapture", blocking, byref(c_void_p()))


def test_a_graph_keeps_user_objects_alive(cuda: Runtime, stream: int) -> None:
    destroyed = threading.Event()
    destructor = ctypes.CFUNCTYPE(None, c_void_p)(lambda _: destroyed.set())
    made = c_void_p()
    cuda.do("cudaUserObjectCreate", byref(made), 0, ctypes.cast(destructor, c_void_p), c_uint(1), c_uint(1))
    cuda.begin_capture(stream)
    cuda.host_function(stream, lambda: None)
    graph = cuda.end_capture(stream)
    cuda.do("cudaGraphRetainUserObject", graph, made, c_uint(1), c_uint(1))
    execution = cuda.instantiate(graph)
    cuda.do("cudaGraphDestroy", graph)
    assert not destroyed.is_set()
    cuda.do("cudaGraphLaunch", execution, stream)
    cuda.do("cudaGraphExecDestroy", execution)
    cuda.synchronize(stream)
    assert destroyed.wait(PATIENCE)


def test_graphs_leave_nothing(cuda: Runtime, stream: int, emulator: Emulator) -> None:
    before = emulator.live()
    test_a_graph_keeps_user_objects_alive(cuda, stream)
    after = emulator.live()
    assert (after.graphs, after.graph_execs, after.user_objects) == (
        before.graphs, before.graph_execs, before.user_objects,
    )  # fmt: skip


def test_external_events_record_with_each_launch(cuda: Runtime, stream: int) -> None:
    external = 1
    event, waiter = cuda.event(), cuda.stream()
    seen: list[str] = []
    go = threading.Event()
    cuda.begin_capture(stream)
    cuda.host_function(stream, lambda: go.wait(20))
    cuda.host_function(stream, lambda: seen.append("graph"))
    cuda.do("cudaEventRecordWithFlags", event, stream, c_uint(external))
    execution = cuda.instantiate(cuda.end_capture(stream))
    cuda.do("cudaGraphLaunch", execution, stream)
    cuda.wait(waiter, event)
    cuda.host_function(waiter, lambda: seen.append("waiter"))
    go.set()
    cuda.synchronize(waiter)
    assert seen == ["graph", "waiter"]
