"""Backends behind torch.distributed: ours, gloo, and one that does nothing (the floor of a call)."""

from __future__ import annotations

import hashlib
import importlib.metadata
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contestants.base import ROOT, python_rank
from bench.native_build import SOURCES
from launch._compiled import COMPILE_TIMEOUT_S
from pycomms.bench.contestants import Setting, Unavailable, torch_launches
from pycomms.bench.group import Launch
from pycomms.bench.plan import BANDWIDTH, ONE_SIDED, Op


@dataclass(frozen=True)
class TorchBackend:
    name: str

    def supports(self, op: Op, world: int) -> bool:
        return self.name == "nccl2" if op in ONE_SIDED else op not in BANDWIDTH

    def launches(self, setting: Setting) -> Sequence[Launch]:
        library = str(_empty_library(setting)) if self.name == "empty" else ""
        program = python_rank("torch_rank", empty_library=library)
        return torch_launches(setting, self.name, lambda options: [*program, *options])


def _empty_library(setting: Setting) -> Path:
    """The compiled backend that does nothing; one per torch, Python and source."""
    key = hashlib.sha256((SOURCES / "empty_backend.cpp").read_bytes())
    key.update(f"{importlib.metadata.version('torch')} {sys.version}".encode())
    folder = setting.cache / "empty_backend" / key.hexdigest()[:16]
    library = folder / "bench_empty_backend.so"
    if library.exists():
        return library
    command = [sys.executable, "-m", "bench.ranks.empty_backend", str(folder)]
    # torch's build machinery looks for ninja in PATH; pip puts it beside the interpreter.
    env = setting.env()
    env["PATH"] = f"{Path(sys.executable).parent}:{env.get('PATH', '')}"
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as err:
        raise Unavailable(f"compiling its backend took more than {COMPILE_TIMEOUT_S} s") from err
    if done.returncode != 0 or not library.exists():
        raise Unavailable("its backend does not compile:\n" + "\n".join(done.stderr.splitlines()[-8:]))
    return library
