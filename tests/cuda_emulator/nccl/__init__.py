"""The emulated libnccl.so.2: hostccl behind NCCL 2.30's functions, on the streams of the emulated CUDA.

    emulator = tests.cuda_emulator.load()
    nccl = tests.cuda_emulator.nccl.load()   # both before torch is imported
    import torch

torch and pycomms then find it under its name, libnccl.so.2. Must not import torch.
"""

from __future__ import annotations

from ._build import library
from ._controls import FOREVER, LiveObjects, Nccl, Point, Result, load

__all__ = ["FOREVER", "LiveObjects", "Nccl", "Point", "Result", "library", "load"]
