"""Imported by the fork server before anything else: the emulator and the stand-in for libnccl come before torch."""

from __future__ import annotations

import tests.cuda_emulator.nccl
from tests import cuda_emulator

emulator = cuda_emulator.load()
nccl = cuda_emulator.nccl.load()
emulator.install_aten()
