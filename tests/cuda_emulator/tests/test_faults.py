"""Failures on order, sticky errors, counters, delays."""

from __future__ import annotations

import threading
import time
from ctypes import byref, c_size_t, c_void_p
from datetime import timedelta
from functools import partial

import pytest
import torch

from tests.cuda_emulator import Delays, Emulator, EmulatorError, Error

from .conftest import Process
from .runtime import NOT_SUPPORTED, CudaError, Runtime


def test_a_call_fails_on_order(cuda: Runtime, emulator: Emulator) -> None:
    emulator.inject("cudaMalloc", Error.MEMORY_ALLOCATION, after=1, times=2)
    codes = [cuda.call("cudaMalloc", byref(c_void_p()), c_size_t(8)) for _ in range(4)]
    assert codes == [0, 2, 2, 0]
    assert cuda.call("cudaGetLastError") == 2
    assert cuda.call("cudaGetLastError") == 0


def test_a_call_is_left_out_on_order(cuda: Runtime, emulator: Emulator) -> None:
    pointer = c_void_p()
    emulator.leave_out("cudaMalloc", after=1)
    assert cuda.call("cudaMalloc", byref(c_void_p()), c_size_t(8)) == 0
    assert cuda.call("cudaMalloc", byref(pointer), c_size_t(8)) == 0
    assert pointer.value is None
    assert cuda.call("cudaGetLastError") == 0
    assert cuda.call("cudaMalloc", byref(pointer), c_size_t(8)) == 0
    assert pointer.value is not None


def test_an_unknown_function_is_refused(emulator: Emulator) -> None:
    with pytest.raises(EmulatorError):
        emulator.inject("cudaNoSuchThing", 1)


def test_failing_work_breaks_its_device_for_good(cuda: Runtime, emulator: Emulator) -> None:
    stream = cuda.stream()
    seen: list[int] = []
    emulator.inject_work(0, Error.ECC_UNCORRECTABLE, after=1)
    # Nothing runs, and so nothing has failed, before all is issued.
    issued = threading.Event()
    cuda.host_function(stream, lambda: seen.append(0) if issued.wait(30) else None)
    for i in (1, 2):
        cuda.host_function(stream, partial(seen.append, i))
    issued.set()
    with pytest.raises(CudaError) as raised:
        cuda.synchronize(stream)
    assert raised.value.code == Error.ECC_UNCORRECTABLE
    assert seen == [0]  # no more work was run
    assert cuda.call("cudaGetLastError") == Error.ECC_UNCORRECTABLE
    assert cuda.call("cudaGetLastError") == Error.ECC_UNCORRECTABLE
    assert cuda.call("cudaStreamQuery", stream) == Error.ECC_UNCORRECTABLE
    emulator.heal()
    cuda.synchronize(stream)
    cuda.call("cudaGetLastError")  # whoever uses this thread next takes it for his


def test_the_other_device_is_well(cuda: Runtime, emulator: Emulator) -> None:
    emulator.fail_device(1, Error.LAUNCH_FAILURE, "for a test")
    cuda.malloc(8)
    torch.zeros(3).to("cuda:0")
    with pytest.raises(RuntimeError, match="for a test"):
        torch.zeros(3).to("cuda:1")


def test_the_reason_reaches_the_user_of_torch(aten: Emulator) -> None:
    values, index = torch.arange(4.0, device="cuda"), torch.tensor([1, 99], device="cuda")
    with pytest.raises(RuntimeError, match=r"device-side assert.*index"):
        values.index_select(0, index).cpu()
    aten.heal()
    torch.cuda.synchronize()


def test_an_error_of_the_device_stays(process: Process) -> None:
    """Until the process ends, whatever it calls."""
    done = process(
        "import torch\n"
        "values, index = torch.arange(4.0, device='cuda'), torch.tensor([1, 99], device='cuda')\n"
        "for attempt in (lambda: values.index_select(0, index).cpu(), torch.cuda.synchronize, values.cpu):\n"
        "    try: attempt()\n"
        "    except RuntimeError as error: print('device-side assert' in str(error))\n"
    )
    assert done.stdout == "True\n" * 3, done.stderr


def test_calls_are_counted(cuda: Runtime, emulator: Emulator) -> None:
    emulator.reset_calls()
    stream = cuda.stream()
    before = emulator.work_count(0)
    for _ in range(3):
        cuda.host_function(stream, lambda: None)
    cuda.synchronize(stream)
    assert emulator.calls("cudaLaunchHostFunc") == 3
    assert emulator.all_calls()["cudaStreamSynchronize"] == 1
    assert emulator.work_count(0) == before + 3


def test_delays_hold_work_back(cuda: Runtime, emulator: Emulator) -> None:
    stream = cuda.stream()
    with emulator.delays(Delays(fixed=timedelta(milliseconds=5), random=timedelta(milliseconds=5), seed=1)):
        start = time.monotonic()
        for _ in range(4):
            cuda.host_function(stream, lambda: None)
        cuda.synchronize(stream)
        assert time.monotonic() - start >= 0.02


@pytest.mark.emulator_only("a GPU has no stubs")
def test_a_stub_says_so(cuda: Runtime, capfd: pytest.CaptureFixture[str]) -> None:
    assert cuda.call("cudaArrayGetInfo") == NOT_SUPPORTED
    assert cuda.call("cudaArrayGetInfo") == NOT_SUPPORTED
    assert capfd.readouterr().err.count("cudaArrayGetInfo is not emulated") == 1
    cuda.call("cudaGetLastError")
