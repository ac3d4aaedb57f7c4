"""The standard job on the emulated CUDA and NCCL, with the options of pycomms.chaos.workload; in each of its processes.

pycomms run --nproc-per-node 4 -m tests.chaos.emulated
"""

from __future__ import annotations

import runpy
import sys

from tests import cuda_emulator
from tests.cuda_emulator import nccl as emulated_nccl


def main() -> None:
    emulator = cuda_emulator.load()  # both before torch is imported
    emulated_nccl.load()
    emulator.install_aten()
    sys.argv[1:] = ["--device", "cuda", *sys.argv[1:]]
    runpy.run_module("pycomms.chaos.workload", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
