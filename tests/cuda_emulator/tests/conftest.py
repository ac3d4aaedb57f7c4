"""Loads the emulator before any test module here imports torch, unless the tests are to run on a real GPU.

Which tests are about CUDA, and which about the emulator? Who takes `cuda`, `kernels`, `hold` or `process` and not
`emulator` or `aten` has to pass on a real GPU, too: `--conformance real` runs these there, and tests/gpu does it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from ctypes import c_int
from itertools import count
from pathlib import Path

import pytest

from tests import cuda_emulator
from tests.cuda_emulator.tests.gate import EmulatedGate, Gate, RealGate
from tests.cuda_emulator.tests.runtime import Runtime

_ANY_CUDA = {"cuda", "kernels", "hold", "process"}
_EMULATOR = {"emulator", "aten"}
_GATES = 1024
_WORD = 4

BROKEN_DEVICE = 70  # exit code

Hold = Callable[[int], Gate]
Process = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_configure(config: pytest.Config) -> None:
    """Here and not in a fixture: the test modules of this folder import torch, and they are imported soon after."""
    config.addinivalue_line("markers", "emulator_only(reason): it takes no more than a CUDA, but needs ours")
    if cuda_emulator.fits_torch() and "torch" not in sys.modules and not _on_a_gpu(config):
        cuda_emulator.load()


def _on_a_gpu(config: pytest.Config) -> bool:
    return str(config.getoption("--conformance")) == "real"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    if config.getoption("--conformance"):
        others = [item for item in ours if not _is_about_cuda(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in others]
        for item in ours:
            if marker := item.get_closest_marker("emulator_only"):
                item.add_marker(pytest.mark.skip(reason=marker.args[0]))
    if cuda_emulator.fits_torch() or _on_a_gpu(config):
        return
    skip = pytest.mark.skip(reason="the emulator stands in for CUDA 13; this torch is built for another or for none")
    for item in ours:
        item.add_marker(skip)


def _is_about_cuda(item: pytest.Item) -> bool:
    asked = set(getattr(item, "fixturenames", ()))
    return bool(asked & _ANY_CUDA) and not asked & _EMULATOR


@pytest.fixture
def emulator() -> Iterator[cuda_emulator.Emulator]:
    """The emulator with no delays, no faults and healthy devices; it leaves it so too."""
    if not cuda_emulator.is_loaded():
        pytest.fail("torch was imported first: run the tests of this folder in a pytest of their own", pytrace=False)
    loaded = cuda_emulator.load()
    loaded.heal()
    loaded.set_delays(cuda_emulator.Delays())
    yield loaded
    loaded.heal()
    loaded.set_delays(cuda_emulator.Delays())


@pytest.fixture
def aten(emulator: cuda_emulator.Emulator) -> cuda_emulator.Emulator:
    """The same, with ATen's CUDA ops."""
    emulator.install_aten()
    return emulator


@pytest.fixture(autouse=True)
def the_device_stays_well(request: pytest.FixtureRequest) -> Iterator[None]:
    """A real one cannot be healed: the process ends, and whoever began it begins another for the other tests."""
    yield
    if not _on_a_gpu(request.config):
        return
    import torch

    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        pytest.exit(f"the device, or a capture, is broken since {request.node.nodeid}: {error}", BROKEN_DEVICE)


# The following ask for the emulator only when they run: so a test that takes them does not take it.


@pytest.fixture
def cuda(request: pytest.FixtureRequest) -> Runtime:
    """The runtime without torch, on device 0. Whatever the test makes in it and leaves behind lives on."""
    if _on_a_gpu(request.config):
        runtime = Runtime(_real_runtime())
    else:
        request.getfixturevalue("emulator")
        runtime = Runtime()
    runtime.do("cudaSetDevice", c_int(0))
    return runtime


def _real_runtime() -> str:
    import torch

    return f"libcudart.so.{str(torch.version.cuda).partition('.')[0]}"


@pytest.fixture
def kernels(request: pytest.FixtureRequest) -> None:
    """torch with CUDA kernels."""
    if not _on_a_gpu(request.config):
        request.getfixturevalue("aten")
        return
    import torch

    # A GPU loads a kernel at its first use, and that may wait for whatever is under way.
    x = torch.full((8,), 1.0, device="cuda")
    torch.add(x, 1).mul_(2).max().item()
    x.copy_(torch.empty_like(x)).copy_(torch.ones(8).pin_memory(), non_blocking=True)
    torch.zeros(8, device="cuda").fill_(1)
    torch.cuda.synchronize()


@pytest.fixture
def hold(request: pytest.FixtureRequest, cuda: Runtime) -> Iterator[Hold]:
    """hold(stream): what is put on the stream from now on waits until the gate is opened, or the test ends."""
    gates: list[Gate] = []
    if _on_a_gpu(request.config):
        driver = ctypes.CDLL("libcuda.so.1")
        words = cuda.host(_GATES * _WORD)
        numbers = count()

        def make(stream: int) -> Gate:
            return RealGate(driver, stream, words + next(numbers) * _WORD)
    else:

        def make(stream: int) -> Gate:
            return EmulatedGate(cuda, stream)

    def hold_stream(stream: int) -> Gate:
        gates.append(make(stream))
        return gates[-1]

    yield hold_stream
    for gate in gates:
        gate.open()


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Process:
    """process(program, **environment): runs it in a fresh interpreter, in which torch has CUDA and its kernels."""
    begin = "from tests import cuda_emulator; cuda_emulator.load().install_aten()\n"
    if _on_a_gpu(request.config):
        begin = ""

    def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", begin + program]
        return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=60)

    return run
