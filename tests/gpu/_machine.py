"""The machine as a rank sees it."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import asdict, dataclass
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class Machine:
    gpus: tuple[str, ...]
    gpu_memory_gib: tuple[float, ...]
    cpus: int
    system: str
    python: str
    torch: str
    cuda: str  # that torch is built for
    cuda_driver: int  # the newest CUDA that the driver has, as 1000 * major + 10 * minor; 0: not known
    nccl: tuple[int, ...]  # the one that is loaded; empty: none

    def describe(self) -> str:
        gpus = f"{len(self.gpus)} x {self.gpus[0]}" if self.gpus else "no GPU"
        nccl = ".".join(map(str, self.nccl)) or "none"
        return f"{gpus}, {self.cpus} CPUs, Python {self.python}, torch {self.torch}, CUDA {self.cuda}, NCCL {nccl}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def look(rank: int, world: int) -> Machine:
    """On a rank: the parent never touches CUDA."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    found = [torch.cuda.get_device_properties(index) for index in range(count)]
    return Machine(
        gpus=tuple(one.name for one in found),
        gpu_memory_gib=tuple(round(one.total_memory / 2**30, 1) for one in found),
        cpus=os.cpu_count() or 0,
        system=platform.platform(),
        python=platform.python_version(),
        torch=torch.__version__,
        cuda=torch.version.cuda or "none",
        cuda_driver=_driver() if count else 0,
        nccl=_nccl() if count else (),
    )


def _driver() -> int:
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return version.value


def _nccl() -> tuple[int, ...]:
    try:
        version = torch.cuda.nccl.version()
    except (AttributeError, RuntimeError) as error:  # a torch built without NCCL
        print(f"no version of NCCL: {error}", file=sys.stderr)
        return ()
    return tuple(part for part in version if isinstance(part, int))
