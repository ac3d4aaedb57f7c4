"""What a contestant is to the driver."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bench.group import Launch
from bench.plan import Op
from launch.netns import Host

ROOT = Path(__file__).resolve().parent.parent.parent


class Unavailable(Exception):
    """The contestant cannot take part here; the text says why and what would change that."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What every contestant is given alike."""

    cache: Path  # environments of the peers, compiled programs
    socket: Path  # where the ranks report
    world: int
    cores: str  # "0,1": rank i is pinned to the i-th; "" when nobody is pinned
    hosts: tuple[Host, ...] = ()  # over which the ranks are spread, in order; none: this machine as it is
    agent: Path = Path()  # with hosts: a program that launchers call instead of ssh
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

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
        """The environment of a rank: one thread for kernels, our bench package importable."""
        path = os.pathsep.join(p for p in (str(ROOT), self.environment.get("PYTHONPATH", "")) if p)
        return {**self.environment, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **more}


class Contestant(Protocol):
    @property
    def name(self) -> str: ...

    def supports(self, op: Op, world: int) -> bool:
        """Whether it makes sense to start the contestant for this operation at all."""

    def launches(self, setting: Setting) -> Sequence[Launch]:
        """The processes to start. May compile. Raises Unavailable."""


def free_port() -> int:
    """A port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def python_rank(module: str, *, python: str = sys.executable, **options: object) -> list[str]:
    """The command line of a Python rank; options without a value are left out."""
    argv = [python, "-m", f"bench.ranks.{module}"]
    for name, value in options.items():
        if value != "":
            argv += [f"--{name.replace('_', '-')}", str(value)]
    return argv
