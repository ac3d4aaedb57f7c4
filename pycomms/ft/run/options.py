"""What the command line of ``pycomms run`` asks for, checked. Pure: the environment comes in as an argument."""

from __future__ import annotations

import argparse
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, Flag
from pathlib import Path

from pycomms.ft.coordinator.tls import OPTIONS, VARIABLES, Tls, tls_of
from pycomms.ft.core.timeouts import Timeouts, derive_from
from pycomms.ft.run.arguments import parser_of

DEFAULT_PORT = 29400  # of the coordinator; torchrun's rendezvous has the same
DEFAULT_MASTER_PORT = 29500


class Std(Flag):
    """Streams of a worker, numbered as torchrun does."""

    NONE = 0
    OUT = 1
    ERR = 2
    BOTH = 3


class Kind(Enum):
    """How the program is run."""

    SCRIPT = "script"
    MODULE = "module"
    PROGRAM = "program"  # not Python's: --no-python


@dataclass(frozen=True, kw_only=True)
class Program:
    """What every worker runs."""

    kind: Kind
    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """Where the hosts of the job meet.

    Attributes:
        host, port: of the coordinator; port 0: any free one, which only a single host can use.
        others: of those that stand by, in the order in which they take over.
        owner: whether this host runs it. None: if the address is one of this machine, and nobody has come first.
        external: somebody else has started it.
        join: how long to wait for the fewest hosts that will do.
        last_call: how long to wait for more when those are there.
    """

    host: str
    port: int
    owner: bool | None
    external: bool
    join: timedelta
    last_call: timedelta
    others: tuple[tuple[str, int], ...] = ()

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        return ((self.host, self.port), *self.others)


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where the workers' output goes."""

    folder: Path | None
    redirects: Mapping[int, Std]
    tee: Mapping[int, Std]
    prefix: str
    only: frozenset[int] | None
    stdout_filters: tuple[str, ...]
    stderr_filters: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Options:
    """All of it. ``per_node`` is a number, or "gpu", "xpu", "cpu", "auto"."""

    fewest_nodes: int
    most_nodes: int
    per_node: str
    node_rank: int | None
    meeting: Meeting
    run_id: str
    local_addr: str | None
    master_addr: str | None
    master_port: int | None
    role: str
    program: Program
    output: Output
    max_restarts: int
    min_ranks: int | None
    spares: int
    timeouts: Timeouts
    shutdown: timedelta
    signals: tuple[signal.Signals, ...]
    virtual_local_rank: bool
    token_file: Path | None
    tls: Tls | None
    http_port: int | None
    json: bool
    warnings: tuple[str, ...] = field(default=())


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> Options:
    """Ends the process with exit code 2 and a message for a command line that makes no sense, as torchrun does."""
    parser = parser_of(environment)
    given = parser.parse_args(list(arguments))
    try:
        return _checked(given, environment)
    except ValueError as error:
        parser.error(str(error))


def _checked(given: argparse.Namespace, environment: Mapping[str, str]) -> Options:
    fewest, most = _nodes(given.nnodes)
    warnings = [*_without_meaning(given)]
    conf = _conf(given.rdzv_conf)
    meeting = _meeting(given, conf, most, warnings)
    token = given.token_file or environment.get("PYCOMMS_JOB_TOKEN_FILE")
    if (most > 1 or meeting.external) and not token:
        raise ValueError(
            "--token-file is missing: hosts that meet over a network need the same secret on each of them, "
            "64 hexadecimal digits in a file that only you can read (openssl rand -hex 32)"
        )
    static = given.rdzv_backend == "static" and not given.standalone
    if given.node_rank and not static:
        warnings.append(f"--node-rank counts with --rdzv-backend=static only, not with {given.rdzv_backend}")
    if given.node_rank < 0 or (static and given.node_rank >= most):
        raise ValueError(f"--node-rank is {given.node_rank}, expected 0 to {most - 1} for --nnodes={given.nnodes}")
    if given.monitor_interval is not None and given.monitor_interval <= 0:
        raise ValueError(f"--monitor-interval is {given.monitor_interval}, expected more than 0")
    return Options(
        fewest_nodes=fewest,
        most_nodes=most,
        per_node=_per_node(given.nproc_per_node),
        node_rank=given.node_rank if static and most > 1 else None,
        meeting=meeting,
        run_id="" if given.standalone or given.rdzv_id == "none" else given.rdzv_id,
        local_addr=given.local_addr,
        master_addr=given.master_addr if static else None,
        master_port=_port(given.master_port, "--master-port") if static else None,
        role=given.role,
        program=_program(given),
        output=_output(given, environment),
        max_restarts=_at_least(given.max_restarts, 0, "--max-restarts"),
        min_ranks=_min_ranks(given, most),
        spares=_at_least(given.spares, 0, "--spares"),
        timeouts=derive_from(given.recovery_deadline),
        shutdown=_shutdown(given.shutdown_timeout, environment),
        signals=_signals(given.signals_to_handle),
        virtual_local_rank=given.virtual_local_rank,
        token_file=Path(token) if token else None,
        tls=_tls(given, environment, meeting, warnings),
        http_port=_port(given.coordinator_http, "--coordinator-http"),
        json=given.json,
        warnings=tuple(warnings),
    )


def _nodes(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)(?::(\d+))?", text)
    fewest, most = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not 0 < fewest <= most:
        raise ValueError(f"--nnodes is {text!r}, expected a number or MIN:MAX with 0 < MIN <= MAX")
    return fewest, most


def _per_node(text: str) -> str:
    if text in ("gpu", "xpu", "cpu", "auto") or (text.isdecimal() and int(text) > 0):
        return text
    raise ValueError(f"--nproc-per-node is {text!r}, expected a number above 0, or gpu, xpu, cpu or auto")


def _at_least(value: int, least: int, name: str) -> int:
    if value < least:
        raise ValueError(f"{name} is {value}, expected {least} or more")
    return value


def _min_ranks(given: argparse.Namespace, most: int) -> int | None:
    if given.min_ranks is None:
        return None
    per_node = given.nproc_per_node
    if per_node.isdecimal() and given.min_ranks > most * int(per_node):
        raise ValueError(
            f"--min-ranks is {given.min_ranks}, expected at most the job's {most * int(per_node)} workers "
            f"(--nnodes={given.nnodes}, --nproc-per-node={per_node})"
        )
    return _at_least(given.min_ranks, 1, "--min-ranks")


def _port(value: int | None, name: str) -> int | None:
    if value is not None and not 0 <= value < 1 << 16:
        raise ValueError(f"{name} is {value}, expected a port, 0 to 65535")
    return value


def _conf(text: str) -> dict[str, str]:
    conf = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.strip().partition("=")
        if not equals or not key:
            raise ValueError(f"--rdzv-conf has {part!r}, expected KEY=VALUE,KEY=VALUE")
        conf[key] = value
    return conf


def _meeting(given: argparse.Namespace, conf: dict[str, str], most: int, warnings: list[str]) -> Meeting:
    join = _seconds(conf.pop("join_timeout", conf.pop("timeout", "600")), "--rdzv-conf join_timeout")
    last_call = _seconds(conf.pop("last_call_timeout", "30"), "--rdzv-conf last_call_timeout")
    owner = {"": None, "1": True, "true": True, "0": False, "false": False}.get(conf.pop("is_host", "").lower())
    if conf:
        warnings.append(f"--rdzv-conf {', '.join(sorted(conf))}: no meaning here")
    others: list[tuple[str, int]] = []
    if given.coordinator:
        (host, port), *others = _addresses(given.coordinator, None, "--coordinator")
        return Meeting(
            host=host, port=port, owner=False, external=True, join=join, last_call=last_call, others=tuple(others)
        )
    if given.standalone or (most == 1 and not given.rdzv_endpoint):
        return Meeting(host="127.0.0.1", port=0, owner=True, external=False, join=join, last_call=last_call)
    if given.rdzv_endpoint:
        (host, port), *others = _addresses(given.rdzv_endpoint, DEFAULT_PORT, "--rdzv-endpoint")
        if others and owner is not None:
            raise ValueError("--rdzv-conf is_host is for one address, and --rdzv-endpoint has several")
    elif given.rdzv_backend == "static":
        # The port itself is that of the workers' store; the coordinator is its neighbour.
        host, port = given.master_addr, (given.master_port or DEFAULT_MASTER_PORT) - 1
        if owner is None:
            owner = given.node_rank == 0
    else:
        raise ValueError("--rdzv-endpoint is missing: HOST:PORT, the same on all hosts, is where they meet")
    if port == 0 and most > 1:
        raise ValueError(f"--rdzv-endpoint is {given.rdzv_endpoint!r}: port 0 is for jobs on one host")
    if given.rdzv_backend not in ("static", "c10d"):
        warnings.append(f"--rdzv-backend={given.rdzv_backend}: the coordinator takes its place")
    return Meeting(
        host=host, port=port, owner=owner, external=False, join=join, last_call=last_call, others=tuple(others)
    )


def _tls(
    given: argparse.Namespace, environment: Mapping[str, str], meeting: Meeting, warnings: list[str]
) -> Tls | None:
    on_line: tuple[str, str, str] = (given.tls_ca, given.tls_cert, given.tls_key)
    if meeting.port == 0:
        if any(on_line):
            warnings.append(f"{', '.join(OPTIONS)}: the job has one host, and nothing leaves it")
        return None
    if any(on_line):
        tls = tls_of(*on_line, OPTIONS)
    else:
        ca, cert, key = (environment.get(name, "") for name in VARIABLES)
        tls = tls_of(ca, cert, key, VARIABLES)
    if tls is not None and tls.cert is None and meeting.owner:
        raise ValueError(
            f"{OPTIONS.cert} and {OPTIONS.key} are missing: the coordinator, which is on this host, needs them"
        )
    return tls


def _addresses(text: str, default: int | None, name: str) -> list[tuple[str, int]]:
    found = [_address(part, default, name) for part in text.split(",")]
    if len(set(found)) != len(found):
        raise ValueError(f"{name} is {text!r}, expected each address once")
    return found


def _address(text: str, default: int | None, name: str) -> tuple[str, int]:
    match = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]+))(?::(\d+))?", text)
    port = match[3] if match else None
    if not match or (port is None and default is None) or int(port or 0) > 65535:
        raise ValueError(f"{name} is {text!r}, expected HOST:PORT")
    return match[1] or match[2], default or 0 if port is None else int(port)


def _seconds(text: str, name: str) -> timedelta:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 < seconds < 1e9:
        raise ValueError(f"{name} is {text!r}, expected seconds, more than 0")
    return timedelta(seconds=seconds)


def _program(given: argparse.Namespace) -> Program:
    if given.module and given.no_python and not given.run_path:
        raise ValueError("--no-python and --module exclude each other: a module needs Python")
    kind = Kind.SCRIPT
    if not given.run_path:
        kind = Kind.MODULE if given.module else Kind.PROGRAM if given.no_python else Kind.SCRIPT
    return Program(kind=kind, name=given.training_script, arguments=tuple(given.training_script_args))


def _output(given: argparse.Namespace, environment: Mapping[str, str]) -> Output:
    folder = Path(given.log_dir) if given.log_dir else None
    if folder is not None and folder.is_file():
        raise ValueError(f"--log-dir is {given.log_dir!r}, a file; expected a folder")
    only = None
    if given.local_ranks_filter:
        if not re.fullmatch(r"\d+(,\d+)*", given.local_ranks_filter):
            raise ValueError(f"--local-ranks-filter is {given.local_ranks_filter!r}, expected ranks such as 0,1,2")
        only = frozenset(map(int, given.local_ranks_filter.split(",")))
    template = given.log_line_prefix_template or environment.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "")
    return Output(
        folder=folder,
        redirects=_streams(given.redirects, "--redirects"),
        tee=_streams(given.tee, "--tee"),
        prefix="" if given.no_prefix else template or "[${rank}]:",
        only=only,
        stdout_filters=tuple(given.duplicate_stdout_filters),
        stderr_filters=tuple(given.duplicate_stderr_filters),
    )


EVERY = -1
"""Key of `Output.redirects` and `tee` for the local ranks that have no entry of their own."""


def _streams(text: str, name: str) -> dict[int, Std]:
    if re.fullmatch(r"[0-3]", text):
        return {EVERY: Std(int(text))}
    if re.fullmatch(r"\d+:[0-3](,\d+:[0-3])*", text):
        return {int(rank): Std(int(std)) for rank, std in (part.split(":") for part in text.split(","))}
    raise ValueError(f"{name} is {text!r}, expected 0, 1, 2 or 3, or pairs such as 0:3,1:2")


def streams_of(mapping: Mapping[int, Std], local_rank: int) -> Std:
    return mapping.get(local_rank, mapping.get(EVERY, Std.NONE))


def _shutdown(given: int | None, environment: Mapping[str, str]) -> timedelta:
    text = environment.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30") if given is None else str(given)
    if not text.isdecimal():
        raise ValueError(f"--shutdown-timeout is {text!r}, expected seconds, 0 or more")
    return timedelta(seconds=int(text))


def _signals(text: str) -> tuple[signal.Signals, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in signal.Signals.__members__]
    unhandled = [name for name in names if name in ("SIGKILL", "SIGSTOP", "SIGCHLD")]
    if unknown or unhandled:
        raise ValueError(f"--signals-to-handle has {', '.join(unknown + unhandled)}, expected names such as SIGUSR1")
    return tuple(signal.Signals[name] for name in names)


def _without_meaning(given: argparse.Namespace) -> list[str]:
    """Options that are accepted so that command lines of torchrun work, and the reason why they do nothing."""
    said = []
    if given.monitor_interval is not None:
        said.append("--monitor-interval: the end of a worker is seen at once")
    if given.start_method is not None:
        said.append("--start-method: every worker is a process of its own")
    if given.event_log_handler != "null":
        said.append("--event-log-handler: events are in the coordinator's log and metrics")
    if given.logs_specs is not None:
        said.append("--logs-specs: such plug-ins need torch in the agent")
    if given.numa_binding is not None:
        said.append("--numa-binding: workers are not bound; use numactl with --no-python")
    return said
