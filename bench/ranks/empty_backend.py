"""The backend that does nothing: compiled once per torch version, then loaded by its ranks.

python -m bench.ranks.empty_backend FOLDER        builds, and prints the path of the library
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch
import torch.distributed as dist

SOURCE = Path(__file__).resolve().parent.parent / "native" / "empty_backend.cpp"
MODULE = "bench_empty_backend"
BACKEND = "bench_empty"


def build(folder: Path) -> Path:
    from torch.utils import cpp_extension

    folder.mkdir(parents=True, exist_ok=True)
    cpp_extension.load(
        MODULE,
        [str(SOURCE)],
        build_directory=str(folder),
        extra_cflags=["-O2", "-g0", "-fvisibility=hidden"],
        is_python_module=False,
        with_cuda=False,
    )
    return folder / f"{MODULE}.so"


def register(library: Path) -> str:
    """Makes the backend known to torch under the returned name."""
    spec = importlib.util.spec_from_file_location(MODULE, library)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {library}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    dist.Backend.register_backend(BACKEND, module.create, devices=["cpu"])
    return BACKEND


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(build(Path(sys.argv[1])))
