"""MPI libraries through mpi4py, from wheels, each in an environment of its own (`python -m bench setup`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.contestants.base import python_rank
from bench.environments import Environment
from pycomms.bench.contestants import Setting, Unavailable
from pycomms.bench.group import Launch
from pycomms.bench.plan import BANDWIDTH, Op

#: torch's shared tensors, process groups and mapped tensors mean nothing to MPI.
NOT_MPI = BANDWIDTH | {Op.INIT, Op.ALL_REDUCE_SHARED, Op.RMA_COPY}


@dataclass(frozen=True, kw_only=True)
class Between:
    """How it is launched on several hosts, with its TCP transport. In the texts {agent}, {interface}, {hosts} (a list),
    {slots} (the same, with the number of ranks on each) and {per_host} stand for the run's."""

    options: tuple[str, ...]
    variables: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Flavour:
    """How one MPI library is launched. Pinning is ours, so that every contestant is pinned alike."""

    name: str
    environment: Environment
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    between: Between
    #: What the library's documentation advises when there are more ranks than cores.
    oversubscribed: Mapping[str, str] = field(default_factory=dict)


_HYDRA = (
    *("-launcher", "ssh", "-launcher-exec", "{agent}", "-iface", "{interface}"),
    *("-hosts", "{hosts}", "-ppn", "{per_host}"),
)

FLAVOURS = (
    Flavour(
        name="mpich",
        environment=Environment("mpich", ("mpi4py", "numpy", "mpich")),
        options=("-launcher", "fork", "-iface", "lo", "-bind-to", "none"),
        variables={"FI_TCP_IFACE": "lo", "UCX_NET_DEVICES": "lo"},
        between=Between(
            options=(*_HYDRA, "-bind-to", "none"),
            variables={
                "FI_PROVIDER": "tcp",
                "FI_TCP_IFACE": "{interface}",
                "UCX_TLS": "tcp,self",
                "UCX_NET_DEVICES": "{interface}",
            },
        ),
    ),
    Flavour(
        name="openmpi",
        environment=Environment("openmpi", ("mpi4py", "numpy", "openmpi")),
        options=("--allow-run-as-root", "--bind-to", "none", "--oversubscribe"),
        variables={
            "OMPI_MCA_btl_tcp_if_include": "lo",
            "PMIX_MCA_ptl_tcp_if_include": "lo",
        },
        between=Between(
            options=(
                *("--allow-run-as-root", "--bind-to", "none", "--oversubscribe"),
                *("--prtemca", "plm_ssh_agent", "{agent}", "--host", "{slots}"),
            ),
            variables={
                "OMPI_MCA_pml": "ob1",
                "OMPI_MCA_btl": "tcp,sm,self",
                "OMPI_MCA_btl_tcp_if_include": "{interface}",
            },
        ),
        oversubscribed={"OMPI_MCA_mpi_yield_when_idle": "1"},
    ),
    Flavour(
        name="impi",
        environment=Environment("impi", ("mpi4py", "numpy", "impi-rt")),
        options=("-launcher", "fork", "-iface", "lo"),
        variables={"I_MPI_PIN": "0", "I_MPI_FABRICS": "shm", "I_MPI_HYDRA_BOOTSTRAP": "fork"},
        between=Between(
            options=_HYDRA,
            variables={
                "I_MPI_PIN": "0",
                "I_MPI_FABRICS": "shm:ofi",
                "FI_PROVIDER": "tcp",
                "FI_TCP_IFACE": "{interface}",
            },
        ),
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
        options, variables = self._how(setting)
        more = self.flavour.oversubscribed if setting.oversubscribed else {}
        env = setting.env(**variables, **more)
        env["PATH"] = f"{folder / 'bin'}:{env.get('PATH', '')}"
        argv = [str(launcher), *options, "-n", str(setting.world), *rank]
        return [Launch(argv=setting.place(0, argv), env=env)]

    def _how(self, setting: Setting) -> tuple[Sequence[str], Mapping[str, str]]:
        """The launcher's options, and the ranks' variables."""
        if not setting.hosts:
            return self.flavour.options, self.flavour.variables
        texts = {
            "agent": setting.agent,
            "interface": setting.interface,
            "hosts": ",".join(host.name for host in setting.hosts),
            "slots": ",".join(f"{host.name}:{setting.per_host}" for host in setting.hosts),
            "per_host": setting.per_host,
        }
        between = self.flavour.between
        options = [option.format_map(texts) for option in between.options]
        return options, {name: value.format_map(texts) for name, value in between.variables.items()}
