"""MPI libraries through mpi4py, from wheels, each in an environment of its own (`python -m bench setup`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.contestants.base import Setting, Unavailable, python_rank
from bench.environments import Environment
from bench.group import Launch
from bench.plan import BANDWIDTH, Op

#: torch's shared tensors and process groups mean nothing to MPI.
NOT_MPI = BANDWIDTH | {Op.INIT, Op.ALL_REDUCE_SHARED}


@dataclass(frozen=True, kw_only=True)
class Flavour:
    """How one MPI library is launched. Pinning is ours, so that every contestant is pinned alike."""

    name: str
    environment: Environment
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    #: What the library's documentation advises when there are more ranks than cores.
    oversubscribed: Mapping[str, str] = field(default_factory=dict)


FLAVOURS = (
    Flavour(
        name="mpich",
        environment=Environment("mpich", ("mpi4py", "numpy", "mpich")),
        options=("-launcher", "fork", "-iface", "lo", "-bind-to", "none"),
        variables={"FI_TCP_IFACE": "lo", "UCX_NET_DEVICES": "lo"},
    ),
    Flavour(
        name="openmpi",
        environment=Environment("openmpi", ("mpi4py", "numpy", "openmpi")),
        options=("--allow-run-as-root", "--bind-to", "none", "--oversubscribe"),
        variables={
            "OMPI_MCA_btl_tcp_if_include": "lo",
            "PMIX_MCA_ptl_tcp_if_include": "lo",
        },
        oversubscribed={"OMPI_MCA_mpi_yield_when_idle": "1"},
    ),
    Flavour(
        name="impi",
        environment=Environment("impi", ("mpi4py", "numpy", "impi-rt")),
        options=("-launcher", "fork", "-iface", "lo"),
        variables={"I_MPI_PIN": "0", "I_MPI_FABRICS": "shm", "I_MPI_HYDRA_BOOTSTRAP": "fork"},
        oversubscribed={"I_MPI_THREAD_YIELD": "2"},
    ),
)


@dataclass(frozen=True)
class Mpi:
    flavour: Flavour

    @property
    def name(self) -> str:
        return self.flavour.name

    def supports(self, op: Op, world: int) -> bool:
        return op not in NOT_MPI

    def launches(self, setting: Setting) -> Sequence[Launch]:
        folder = self.flavour.environment.folder(setting.cache)
        if not self.flavour.environment.ready(setting.cache):
            raise Unavailable(f"not installed in {folder}: run `python -m bench setup`")
        launcher = folder / "bin" / "mpiexec"
        if not launcher.exists():
            raise Unavailable(f"{launcher} is missing: run `python -m bench setup --again`")
        rank = python_rank(
            "mpi_rank",
            python=str(folder / "bin" / "python"),
            socket=setting.socket,
            contestant=self.name,
            cores=setting.cores,
        )
        more = self.flavour.oversubscribed if setting.oversubscribed else {}
        env = setting.env(**self.flavour.variables, **more)
        env["PATH"] = f"{folder / 'bin'}:{env.get('PATH', '')}"
        return [Launch(argv=[str(launcher), *self.flavour.options, "-n", str(setting.world), *rank], env=env)]
