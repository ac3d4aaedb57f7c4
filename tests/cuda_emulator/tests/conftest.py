"""Loads the emulator before any test module here imports torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ctypes import c_int
from pathlib import Path

import pytest

from tests import cuda_emulator
from tests.cuda_emulator.tests.runtime import Runtime

# Here and not in a fixture: the test modules of this folder import torch, and they are imported right after this file.
if cuda_emulator.fits_torch() and "torch" not in sys.modules:
    cuda_emulator.load()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if cuda_emulator.fits_torch():
        return
    skip = pytest.mark.skip(reason="the emulator stands in for CUDA 13; this torch is built for another or for none")
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(skip)


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


@pytest.fixture
def cuda(emulator: cuda_emulator.Emulator) -> Runtime:
    """The runtime without torch, on device 0. Whatever the test makes in it and leaves behind lives on."""
    runtime = Runtime()
    runtime.do("cudaSetDevice", c_int(0))
    return runtime
