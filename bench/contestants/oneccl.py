"""oneCCL on the CPU, through a C++ program compiled against its wheel (bench/native/oneccl_rank.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.environments import Environment
from bench.native_build import build_program
from launch._compiled import CompileError
from pycomms.bench.contestants import Setting, Unavailable, free_port
from pycomms.bench.group import Launch
from pycomms.bench.plan import Op

ENVIRONMENT = Environment("oneccl", ("oneccl-devel", "impi-rt"))
SUPPORTED = frozenset(
    {Op.ALL_REDUCE, Op.ALL_REDUCE_ASYNC, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.BROADCAST, Op.ALL_TO_ALL, Op.REDUCE}
    | {Op.BARRIER}  # without worker threads, its send and recv end the process
)


@dataclass(frozen=True)
class OneCcl:
    name: str = "oneccl"

    def supports(self, op: Op, world: int) -> bool:
        return op in SUPPORTED

    def launches(self, setting: Setting) -> Sequence[Launch]:
        if setting.hosts:
            raise Unavailable("it is measured on one host only")
        folder = ENVIRONMENT.folder(setting.cache)
        if not ENVIRONMENT.ready(setting.cache):
            raise Unavailable(f"not installed in {folder}: run `python -m bench setup`")
        library = _library_folder(folder)
        flags = [f"-I{folder / 'include'}", f"-L{library}", "-lccl", f"-Wl,-rpath,{library}"]
        try:
            program = build_program("oneccl_rank", setting.cache, flags)
        except CompileError as err:
            raise Unavailable(str(err)) from err
        meeting = setting.socket.with_name(f"oneccl-{free_port()}")  # a new name for every start
        env = setting.env(
            CCL_ATL_TRANSPORT="mpi",
            CCL_LOG_LEVEL="error",
            CCL_WORKER_OFFLOAD="0",  # no core is left for worker threads: with them 8 B take 20 ms here
            CCL_KVS_IFACE="lo",
            FI_TCP_IFACE="lo",
            I_MPI_PIN="0",
            I_MPI_FABRICS="shm",
            **({"CCL_YIELD": "sched_yield"} if setting.oversubscribed else {}),
        )
        env["LD_LIBRARY_PATH"] = f"{library}:{env.get('LD_LIBRARY_PATH', '')}"
        rank = [str(program), str(setting.socket), setting.cores, str(meeting)]
        hydra = ["-launcher", "fork", "-iface", "lo", "-n", str(setting.world)]
        return [Launch(argv=[str(folder / "bin" / "mpiexec"), *hydra, *rank], env=env)]


def _library_folder(folder: Path) -> Path:
    found = sorted(folder.rglob("libccl.so"))
    if not found:
        raise Unavailable(f"no libccl.so in {folder}: run `python -m bench setup --again`")
    return found[0].parent
