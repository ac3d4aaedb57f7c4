"""Imported by the fork server before anything else: the emulator and the stand-in for libnccl come before torch."""

from __future__ import annotations

from tests import cuda_emulator
from tests.cuda_emulator import nccl as emulated_nccl

emulator = cuda_emulator.load()
nccl = emulated_nccl.load()
emulator.install_aten()
