"""An emulated CUDA: libcudart.so.13 and libcuda.so.1 over host memory, so that CUDA code runs where no GPU is.

    emulator = tests.cuda_emulator.load()   # before torch is imported
    import torch
    emulator.install_aten()                 # if kernels are wanted, not only copies, streams, events and graphs

docs/cuda_emulator.md says what is emulated. Must not import torch before the emulator is loaded.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass, field
from datetime import timedelta

from ._build import fits_torch, library_folder
from ._compile import BuildError
from ._controls import Delays, Emulator, EmulatorError, Error, LiveObjects
from ._library import declare

__all__ = [
    "BuildError",
    "Delays",
    "Emulator",
    "EmulatorError",
    "Error",
    "LiveObjects",
    "Options",
    "environment",
    "fits_torch",
    "is_loaded",
    "load",
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is fixed once the emulator is loaded. Processes started later inherit it through the environment."""

    devices: int = 2
    memory_mb: int = 8192  # of address space, for each device
    patience: timedelta = timedelta(seconds=120)  # a host thread that waits longer breaks the device and reports
    delays: Delays = field(default_factory=Delays)  # until a test sets others
    trace: bool = False  # failing calls go to stderr

    def variables(self) -> dict[str, str]:
        fixed, random = self.delays.in_microseconds()
        return {
            "CUEMU_DEVICES": str(self.devices),
            "CUEMU_MEMORY_MB": str(self.memory_mb),
            "CUEMU_PATIENCE_S": str(int(self.patience.total_seconds())),
            "CUEMU_DELAY_US": str(fixed),
            "CUEMU_DELAY_RANDOM_US": str(random),
            "CUEMU_DELAY_SEED": str(self.delays.seed),
            "CUEMU_TRACE": str(int(self.trace)),
        }


_loaded: Emulator | None = None


def is_loaded() -> bool:
    """Whether this process runs on the emulator, however it was loaded."""
    return hasattr(ctypes.CDLL(None), "cuemu_bytes")


def load(options: Options | None = None) -> Emulator:
    """Loads the emulator into this process, building it first if need be. The second call returns the first's.

    Without options the environment decides, and where it says nothing, the defaults.
    Raises RuntimeError when torch has been imported without the emulator: it would have bound to the real runtime.
    """
    global _loaded
    if _loaded is not None:
        return _loaded
    if not is_loaded() and "torch" in sys.modules:
        raise RuntimeError("torch was imported before the CUDA emulator was loaded: load it first, in a fresh process")
    if options is not None:
        os.environ.update(options.variables())
    folder = library_folder()
    runtime = ctypes.CDLL(str(folder / "libcudart.so.13"), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(folder / "libcuda.so.1"), ctypes.RTLD_GLOBAL)
    _loaded = Emulator(declare(runtime), folder)
    return _loaded


def environment(options: Options | None = None) -> dict[str, str]:
    """Variables that load the emulator into any program, for one that cannot call load() itself."""
    folder = library_folder()
    preload = [str(folder / "libcudart.so.13"), str(folder / "libcuda.so.1")]
    if before := os.environ.get("LD_PRELOAD"):
        preload.append(before)
    return {"LD_PRELOAD": ":".join(preload), **(options or Options()).variables()}
