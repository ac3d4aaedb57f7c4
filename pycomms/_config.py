"""What the environment says, read once. The only module that touches ``os.environ``."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "PYCOMMS_"


def _help(text: str, variable: str = "") -> dict[str, str]:
    """variable: where it is not ``PYCOMMS_<FIELD>``, because users of other backends know it."""
    return {"help": text, "variable": variable}


@dataclass(frozen=True, kw_only=True)
class Config:
    """One field per variable, ``PYCOMMS_<FIELD>`` unless it says otherwise; docs/env.md is generated from it."""

    engine: Path = field(
        default=Path(__file__).parent / "lib" / "libhostccl.so",
        metadata=_help("path of the engine for CPU tensors"),
    )
    vector_width: str = field(
        default="",
        metadata=_help("vectors of the reductions, at most: baseline, avx2 or avx512; empty is the widest there is"),
    )
    connect: str = field(
        default="background",
        metadata=_help("when a group without options connects its ranks: background, eager or lazy"),
    )
    deterministic: bool = field(
        default=False,
        metadata=_help("1: NCCL does not add in network switches (NVLS), whose order is not fixed"),
    )
    ranks_per_root: int = field(
        default=128,
        metadata=_help(
            "GPU groups of more ranks start with several unique ids, one for as many ranks; 0: with one",
            variable="TORCH_NCCL_RANKS_PER_ROOT",
        ),
    )
    nan_check: str = field(
        default="off",
        metadata=_help(
            "what a group without that option looks for in the data of its operations: off, nan or nan_and_inf. "
            "While it is not set, `TORCH_NCCL_NAN_CHECK=1` means nan"
        ),
    )
    register_segments: bool = field(
        default=False,
        metadata=_help(
            "1: all of torch's memory on a GPU is registered with the NCCL of every group that works with it; "
            "torch's `TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK` says the same"
        ),
    )
    socket_ifname: str = field(
        default="",
        metadata=_help(
            "network interfaces by which other hosts reach this one, as in NCCL_SOCKET_IFNAME: prefixes, `=` for whole "
            "names, `^` for all but these; empty is the first that leads anywhere"
        ),
    )
    socket_family: str = field(default="", metadata=_help("4 or 6: that version of IP only"))
    host_timeout: str = field(
        default="2", metadata=_help("seconds after which a host that acknowledges nothing counts as gone")
    )
    reduce_by_hosts: str = field(
        default="1",
        metadata=_help(
            "0: sums between hosts have the bits that they have on one host; large ones are slower where a host has "
            "several ranks. The same on all ranks"
        ),
    )
    host_id: str = field(
        default="", metadata=_help("any text: ranks with different ones act as if they were on different hosts")
    )
    fr_dir: str = field(
        default="",
        metadata=_help(
            "folder of the flight recorder's files; empty is /dev/shm/pycomms-fr-<uid>. Those of one job lie in a "
            "folder of their own there"
        ),
    )
    fr_job: str = field(
        default="",
        metadata=_help(
            "name of the job in the flight recorder; empty is torchrun's run id, Slurm's job id, or the address where "
            "the ranks meet"
        ),
    )
    fr_entries: int = field(
        default=4096,
        metadata=_help("operations that the flight recorder keeps, 256 bytes each; 0: nothing is recorded"),
    )
    fr_stacks: bool = field(
        default=False, metadata=_help("1: the flight recorder keeps whole Python stacks, not only the calling line")
    )
    fr_dump_dir: str = field(
        default="", metadata=_help("folder for the flight recorder's dumps; empty is that of its files")
    )
    fr_dumps: int = field(
        default=16, metadata=_help("dumps that a process writes by itself when something fails, at most")
    )
    fr_signal: str = field(
        default="",
        metadata=_help("a signal, such as SIGUSR2, at which a process writes a dump and nothing else happens"),
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Config:
        """Raises ValueError for a value that makes no sense."""
        default = cls()
        config = cls(
            engine=Path(environment.get(f"{PREFIX}ENGINE", default.engine)),
            vector_width=environment.get(f"{PREFIX}VECTOR_WIDTH", default.vector_width),
            connect=environment.get(f"{PREFIX}CONNECT", default.connect),
            deterministic=_flag(environment, f"{PREFIX}DETERMINISTIC"),
            ranks_per_root=_count(environment, "TORCH_NCCL_RANKS_PER_ROOT", default.ranks_per_root),
            nan_check=environment.get(f"{PREFIX}NAN_CHECK", _torchs_nan_check(environment)),
            register_segments=_flag(environment, f"{PREFIX}REGISTER_SEGMENTS", *_TORCHS_REGISTER_SEGMENTS),
            socket_ifname=environment.get(f"{PREFIX}SOCKET_IFNAME", default.socket_ifname),
            socket_family=environment.get(f"{PREFIX}SOCKET_FAMILY", default.socket_family),
            host_timeout=environment.get(f"{PREFIX}HOST_TIMEOUT", default.host_timeout),
            reduce_by_hosts=environment.get(f"{PREFIX}REDUCE_BY_HOSTS", default.reduce_by_hosts),
            host_id=environment.get(f"{PREFIX}HOST_ID", default.host_id),
            fr_dir=environment.get(f"{PREFIX}FR_DIR", default.fr_dir),
            fr_job=environment.get(f"{PREFIX}FR_JOB", default.fr_job),
            fr_entries=_count(environment, f"{PREFIX}FR_ENTRIES", default.fr_entries),
            fr_stacks=_flag(environment, f"{PREFIX}FR_STACKS"),
            fr_dump_dir=environment.get(f"{PREFIX}FR_DUMP_DIR", default.fr_dump_dir),
            fr_dumps=_count(environment, f"{PREFIX}FR_DUMPS", default.fr_dumps),
            fr_signal=environment.get(f"{PREFIX}FR_SIGNAL", default.fr_signal),
        )
        if config.connect not in ("background", "eager", "lazy"):
            raise ValueError(f"{PREFIX}CONNECT must be background, eager or lazy, not {config.connect!r}")
        if config.nan_check not in ("off", "nan", "nan_and_inf"):
            raise ValueError(f"{PREFIX}NAN_CHECK must be off, nan or nan_and_inf, not {config.nan_check!r}")
        if config.fr_signal and config.fr_signal not in signal.Signals.__members__:
            raise ValueError(f"{PREFIX}FR_SIGNAL must be a name such as SIGUSR2, not {config.fr_signal!r}")
        return config


def variable_of(name: str, of: type[Config | Membership] = Config) -> str:
    """The environment variable of a field."""
    known = str(next(f for f in fields(of) if f.name == name).metadata["variable"])
    return known or f"{PREFIX}{name.upper()}"


def turn_nvls_off() -> None:
    """For communicators that NCCL makes from here on, if it has made none yet and the user has not chosen himself."""
    if "NCCL_ALGO" not in os.environ:
        os.environ.setdefault("NCCL_NVLS_ENABLE", "0")


def keep_grpc_out_of_forks() -> None:
    """Before grpc is imported, if the user has not chosen himself: otherwise it starts threads in each child that is
    forked off, such as the workers of a data loader, and now and then aborts it."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


_TORCHS_REGISTER_SEGMENTS = ("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK")
_YES = ("1", "y", "yes", "t", "true")
_NO = ("", "0", "n", "no", "f", "false")


def _flag(environment: Mapping[str, str], *names: str) -> bool:
    """The first of these variables that is set decides; as torch spells yes and no."""
    name = next((name for name in names if name in environment), None)
    if name is None:
        return False
    value = environment[name].lower()
    if value not in _YES + _NO:
        raise ValueError(f"{name} must be 0 or 1, not {environment[name]!r}")
    return value in _YES


def _count(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name, str(default))
    if not value.isdecimal():
        raise ValueError(f"{name} must be a whole number, 0 or more, not {value!r}")
    return int(value)


def _torchs_nan_check(environment: Mapping[str, str]) -> str:
    """torch's own switch for its NCCL backends, in our words."""
    return "nan" if _flag(environment, "TORCH_NCCL_NAN_CHECK") else "off"


@cache
def config() -> Config:
    """The configuration of this process."""
    return Config.from_environment(os.environ)


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What the launcher of this process says of it. rank: -1 where it says nothing."""

    rank: int
    world_size: int
    attempt: int
    job: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Launch:
        """Of torchrun or Slurm; what makes no sense is taken as not said."""
        run = environment.get("TORCHELASTIC_RUN_ID", "")
        slurm = environment.get("SLURM_JOB_ID", "")
        meeting = "_".join(environment[name] for name in ("MASTER_ADDR", "MASTER_PORT") if name in environment)
        return cls(
            rank=_number(environment.get("RANK", environment.get("SLURM_PROCID", "")), -1),
            world_size=_number(environment.get("WORLD_SIZE", environment.get("SLURM_NTASKS", "")), 0),
            attempt=_number(environment.get("TORCHELASTIC_RESTART_COUNT", ""), 0),
            job=run if run not in ("", "none") else f"slurm{slurm}" if slurm else meeting,
        )


def _number(text: str, default: int) -> int:
    return int(text) if text.isdecimal() else default


def launch() -> Launch:
    """What the launcher says at this moment: programs that start ranks by themselves may set it late."""
    return Launch.from_environment(os.environ)


@dataclass(frozen=True, kw_only=True)
class Membership:
    """What ``pycomms run`` says to a worker about the job that it is a member of.

    Attributes:
        agent: path of the agent's Unix socket, an abstract one where it begins with "@"; empty: there is none.
        coordinator: its address, host:port; empty: there is none.
        host: the name that the agent has for this host.
        member: this process's own name, of no other process before or after it.
        slot: its place in the job; -1: any.
        incarnation: how many processes had the slot before.
        token_file: of the job's token.
        recovery_deadline: in seconds; 0: not said.
        tls_ca, tls_cert, tls_key: files in PEM; empty: without.
    """

    agent: str = field(default="", metadata=_help("the agent's Unix socket; an abstract one where it begins with @"))
    coordinator: str = field(default="", metadata=_help("host:port of the job's coordinator"))
    host: str = field(default="", metadata=_help("name of this host in the job"))
    member: str = field(default="", metadata=_help("name of this process in the job, of no other before or after it"))
    slot: int = field(default=-1, metadata=_help("its place in the job; without it, any that is free"))
    incarnation: int = field(default=0, metadata=_help("how many processes had the slot before"))
    token_file: str = field(default="", metadata=_help("file of the job's token", variable=f"{PREFIX}JOB_TOKEN_FILE"))
    recovery_deadline: float = field(
        default=0.0, metadata=_help("seconds; without it, 10: every timeout of `pycomms.ft` follows from it")
    )
    tls_ca: str = field(
        default="",
        metadata=_help("PEM file: the coordinator has to show a certificate that this authority has signed"),
    )
    tls_cert: str = field(default="", metadata=_help("PEM file: the certificate that is shown to the coordinator"))
    tls_key: str = field(default="", metadata=_help("PEM file: its key"))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Membership:
        """Raises ValueError for a deadline that is no number."""
        deadline = environment.get(f"{PREFIX}RECOVERY_DEADLINE", "0")
        try:
            seconds = float(deadline)
        except ValueError:
            raise ValueError(f"{PREFIX}RECOVERY_DEADLINE must be a number of seconds, not {deadline!r}") from None
        return cls(
            agent=environment.get(f"{PREFIX}AGENT", ""),
            coordinator=environment.get(f"{PREFIX}COORDINATOR", ""),
            host=environment.get(f"{PREFIX}HOST", ""),
            member=environment.get(f"{PREFIX}MEMBER", ""),
            slot=_number(environment.get(f"{PREFIX}SLOT", ""), -1),
            incarnation=_number(environment.get(f"{PREFIX}INCARNATION", ""), 0),
            token_file=environment.get(f"{PREFIX}JOB_TOKEN_FILE", ""),
            recovery_deadline=seconds,
            tls_ca=environment.get(f"{PREFIX}TLS_CA", ""),
            tls_cert=environment.get(f"{PREFIX}TLS_CERT", ""),
            tls_key=environment.get(f"{PREFIX}TLS_KEY", ""),
        )


def membership() -> Membership:
    """What ``pycomms run`` says at this moment: a spare process is told late."""
    return Membership.from_environment(os.environ)


def set_in_environment(variables: Mapping[str, str]) -> None:
    """For libraries that look there, as they do under torchrun."""
    os.environ.update(variables)


def inherited() -> dict[str, str]:
    """All of the environment, for those who start other programs, or look for what others have set."""
    return dict(os.environ)
