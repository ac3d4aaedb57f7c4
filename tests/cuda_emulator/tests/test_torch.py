"""torch on the emulator, end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.cuda_emulator import Emulator, Options, environment

from .conftest import Process


def test_torch_sees_devices(emulator: Emulator) -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    assert torch.cuda.get_device_properties(1).name == "Emulated device 1"


def test_one_plus_one(kernels: None) -> None:
    assert (torch.ones(4, device="cuda") + 1).tolist() == [2.0] * 4


def test_no_second_runtime_is_loaded(emulator: Emulator) -> None:
    assert "libcudart" not in Path("/proc/self/maps").read_text()


def test_between_devices(aten: Emulator) -> None:
    x = torch.arange(8.0, device="cuda:0")
    y = x.to("cuda:1")
    assert y.device.index == 1
    assert torch.equal(y.cpu(), x.cpu())


def test_pinned_and_non_blocking(kernels: None) -> None:
    x = torch.arange(1000.0).pin_memory()
    assert x.is_pinned()
    y = x.to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(y.cpu(), x)


def test_streams_and_events(aten: Emulator) -> None:
    stream, start, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        start.record()
        torch.cuda._sleep(2_000_000)  # 2 ms at the emulated 1 GHz
        end.record()
    torch.cuda.current_stream().wait_event(end)
    end.synchronize()
    assert end.query()
    assert stream.query()
    assert start.elapsed_time(end) >= 2


def test_out_of_memory(kernels: None) -> None:
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")


def test_private_pools(kernels: None) -> None:
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        x = torch.ones(1000, device="cuda")
    assert x.sum().item() == 1000


def test_a_synchronization_inside_a_capture_is_refused(aten: Emulator) -> None:
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="captur"), torch.cuda.graph(graph):
        torch.cuda.current_stream().synchronize()
    torch.cuda.synchronize()


def run(program: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)


def test_the_asynchronous_allocator_of_torch(process: Process) -> None:
    done = process(
        "import torch; x = [torch.ones(1000, device='cuda') for _ in range(10)]; print(sum(x).sum().item())",
        PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync",
    )
    assert done.stdout == "10000.0\n", done.stderr


def test_a_process_ends_cleanly_while_streams_are_busy(process: Process) -> None:
    done = process("import torch; x = torch.ones(1000, device='cuda')\nfor _ in range(2000): x = x * 1.5")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_is_refused(process: Process) -> None:
    done = process(
        "import ctypes, os, torch; torch.zeros(3).to('cuda')\n"
        "runtime = ctypes.CDLL('libcudart.so.' + torch.version.cuda.partition('.')[0])\n"
        "child = os.fork()\n"
        "if not child: os._exit(runtime.cudaDeviceSynchronize())\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    assert done.stdout == "3\n", done.stderr


def test_loading_after_torch_is_refused() -> None:
    done = run("import torch; from tests import cuda_emulator; cuda_emulator.load()")
    assert "torch was imported before" in done.stderr


def test_the_environment_loads_it_too() -> None:
    variables = os.environ | environment(Options(devices=3))
    done = run("import torch; print(torch.cuda.device_count(), torch.arange(3).to('cuda:2').cpu())", variables)
    assert done.stdout == "3 tensor([0, 1, 2])\n", done.stderr
