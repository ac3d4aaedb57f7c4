"""What a contestant is to the driver, and the backends of torch.distributed that a user may compare."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pycomms._config import inherited
from pycomms.bench.group import Launch
from pycomms.bench.plan import BANDWIDTH, ONE_SIDED, Op
from pycomms.doctor.child import python

ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = "pycomms.bench.ranks.torch_rank"
_LIFE_S = 4 * 3600.0
"""Of a rank whose driver was killed and could not tell it to end."""


class Unavailable(Exception):
    """The contestant cannot take part here; the text says why and what would change that."""


class Host(Protocol):
    """Where ranks are started, if not here."""

    @property
    def name(self) -> str: ...
    @property
    def interface(self) -> str: ...
    @property
    def ipv4(self) -> str: ...
    def command(self, argv: Sequence[str]) -> list[str]: ...


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every contestant is given alike."""

    socket: Path  # where the ranks report
    world: int
    cores: str  # "0,1": rank i is pinned to the i-th; "" when nobody is pinned
    device: str = "cpu"  # of the tensors; "cuda": rank i has GPU i
    cache: Path = Path()  # environments of the peers, compiled programs
    hosts: tuple[Host, ...] = ()  # over which the ranks are spread, in order; none: this machine as it is
    agent: Path = Path()  # with hosts: a program that launchers call instead of ssh
    environment: Mapping[str, str] = field(default_factory=inherited)

    @property
    def where(self) -> str:
        return f"{self.world} ranks" + (f" on {len(self.hosts)} hosts" if self.hosts else "")

    @property
    def oversubscribed(self) -> bool:
        return self.world > len(os.sched_getaffinity(0))

    @property
    def interface(self) -> str:
        return self.hosts[0].interface if self.hosts else "lo"

    @property
    def address(self) -> str:
        """Of rank 0's host, for the others."""
        return self.hosts[0].ipv4 if self.hosts else "127.0.0.1"

    @property
    def per_host(self) -> int:
        return self.world // max(1, len(self.hosts))

    def place(self, rank: int, argv: Sequence[str]) -> list[str]:
        """The command line that starts a rank where it belongs."""
        return self.hosts[rank // self.per_host].command(argv) if self.hosts else list(argv)

    def env(self, **more: str) -> dict[str, str]:
        """The environment of a rank: one thread for kernels, this package importable."""
        path = os.pathsep.join(p for p in (str(ROOT), self.environment.get("PYTHONPATH", "")) if p)
        return {**self.environment, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **more}


class Contestant(Protocol):
    @property
    def name(self) -> str: ...

    def supports(self, op: Op, world: int) -> bool:
        """Whether it makes sense to start the contestant for this operation at all."""

    def launches(self, setting: Setting) -> Sequence[Launch]:
        """The processes to start. May compile. Raises Unavailable."""


@dataclass(frozen=True)
class Backend:
    """One of ranks.torch_rank.BACKENDS. Must not need more than what the wheel has."""

    name: str

    def supports(self, op: Op, world: int) -> bool:
        return op not in BANDWIDTH and op not in ONE_SIDED

    def launches(self, setting: Setting) -> Sequence[Launch]:
        return torch_launches(setting, self.name, lambda options: python(_PROGRAM, options, _LIFE_S))


def torch_launches(setting: Setting, name: str, command: Callable[[Sequence[str]], Sequence[str]]) -> list[Launch]:
    """Of ranks that are programs like ranks/torch_rank.py. command: of options, the command line."""
    port = free_port()
    env = setting.env(GLOO_SOCKET_IFNAME=setting.interface, TORCH_CPP_LOG_LEVEL="ERROR")
    common = {
        "socket": setting.socket,
        "contestant": name,
        "world": setting.world,
        "address": setting.address,
        "port": port,
        "device": setting.device,
        "cores": setting.cores,
    }
    launches = []
    for rank in range(setting.world):
        options = [f"--{option}={value}" for option, value in {**common, "rank": rank}.items()]
        launches.append(Launch(argv=setting.place(rank, command(options)), env=env))
    return launches


def free_port() -> int:
    """A port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
