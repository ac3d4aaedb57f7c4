"""The options of ``pycomms run``: all of torchrun's, and ours. Names, defaults and help; what they mean is decided in
options.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

EXIT_CODES = """\
exit codes:
  0    every worker has ended with 0
  1    the job has failed
  2    wrong command line
  130  ended by SIGINT, 143 by SIGTERM: 128 and the signal's number
"""


class Parser(argparse.ArgumentParser):
    """Options have a form with underscores as well, and ``PET_<NAME>`` in the environment is their default."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(
            prog="pycomms run",
            description="torchrun's command line; only the worker that has died is started again",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=EXIT_CODES,
        )
        self._environment = environment

    def option(self, group: argparse._ArgumentGroup, *names: str, **how: Any) -> None:
        told = self._environment.get(_variable(names))
        if told is not None:
            how["default"] = told
        group.add_argument(*_spelled(names), **how)

    def flag(self, group: argparse._ArgumentGroup, *names: str, help: str) -> None:
        variable = _variable(names)
        told = self._environment.get(variable, "0")
        if told not in ("0", "1"):
            self.error(f"{variable} is {told!r}, expected 0 or 1")
        group.add_argument(*_spelled(names), action="store_true", default=told == "1", help=help)


def _variable(names: Sequence[str]) -> str:
    """``PET_NPROC_PER_NODE`` of ``--nproc-per-node``; of several names that of the longest."""
    return f"PET_{max(names, key=len).lstrip('-').replace('-', '_').upper()}"


def _spelled(names: Sequence[str]) -> list[str]:
    """With underscores as well, each once."""
    return list(dict.fromkeys([*names, *(f"--{name[2:].replace('-', '_')}" for name in names if name[1] == "-")]))


def parser_of(environment: Mapping[str, str]) -> Parser:
    parser = Parser(environment)
    _ours(parser)
    _hosts(parser)
    _workers(parser)
    _output(parser)
    _accepted(parser)
    parser.add_argument("training_script", help="the program of every worker")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def _ours(parser: Parser) -> None:
    group = parser.add_argument_group("fault tolerance (torchrun has no such options)")
    parser.option(group, "--min-ranks", type=int, metavar="N", help="fewest workers that train (1)")
    parser.option(
        group,
        "--spares",
        type=int,
        default=0,
        metavar="N",
        help="processes that have imported torch and wait to take the place of one that dies (0)",
    )
    parser.option(
        group,
        "--recovery-deadline",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="from a failure to the next step; every timeout follows from it (10)",
    )
    parser.option(group, "--coordinator", metavar="HOST:PORT", help="use this one instead of starting one")
    parser.option(group, "--token-file", metavar="FILE", help="the secret of the job, the same on all hosts")
    parser.option(group, "--tls-ca", default="", metavar="FILE", help="TLS: whom to believe, PEM (PYCOMMS_TLS_CA)")
    parser.option(group, "--tls-cert", default="", metavar="FILE", help="TLS: certificate of this host, PEM")
    parser.option(group, "--tls-key", default="", metavar="FILE", help="TLS: its key")
    parser.option(group, "--coordinator-http", type=int, metavar="PORT", help="status page and metrics of the job")
    parser.flag(group, "--json", help="at the end, a JSON object with what has happened, as the last line of stdout")
    parser.flag(group, "--no-prefix", help="workers' lines on the console as they are")


def _hosts(parser: Parser) -> None:
    group = parser.add_argument_group("hosts")
    parser.option(group, "--nnodes", default="1:1", metavar="N or MIN:MAX", help="number of hosts (1)")
    parser.option(
        group,
        "--nproc-per-node",
        default="1",
        metavar="N",
        help="workers on this host: a number, or gpu, xpu, cpu, auto (1)",
    )
    parser.option(
        group,
        "--rdzv-backend",
        default="static",
        metavar="NAME",
        help="static: hosts are numbered by --node-rank; c10d: as they come (static)",
    )
    parser.option(group, "--rdzv-endpoint", default="", metavar="HOST:PORT", help="where the coordinator is")
    parser.option(group, "--rdzv-id", default="none", metavar="NAME", help="name of the job")
    parser.option(
        group,
        "--rdzv-conf",
        default="",
        metavar="KEY=VALUE,…",
        help="join_timeout, last_call_timeout: seconds to wait for hosts (600, 30); is_host=1: coordinator here",
    )
    parser.flag(group, "--standalone", help="one host; whatever says where to meet is ignored")
    parser.option(group, "--node-rank", type=int, default=0, metavar="N", help="number of this host, from 0")
    parser.option(group, "--master-addr", default="127.0.0.1", metavar="HOST", help="host of rank 0, where static")
    parser.option(group, "--master-port", type=int, metavar="PORT", help="port of the workers' store, where static")
    parser.option(group, "--local-addr", metavar="HOST", help="how other hosts reach this one")


def _workers(parser: Parser) -> None:
    group = parser.add_argument_group("workers")
    parser.option(
        group,
        "--max-restarts",
        type=int,
        default=3,
        metavar="N",
        help="how often the worker of one slot is started again, or, without pycomms.ft, all of them (3)",
    )
    parser.option(group, "--role", default="default", metavar="NAME", help="of the workers, for their environment")
    parser.flag(group, "-m", "--module", help="the program is a Python module")
    parser.flag(group, "--no-python", help="the program is not Python's")
    parser.flag(group, "--run-path", help="the program is a Python script, whatever else is said")
    parser.option(
        group,
        "--signals-to-handle",
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        metavar="NAMES",
        help="signals that end the job cleanly; the workers get them (SIGTERM,SIGINT,SIGHUP,SIGQUIT)",
    )
    parser.option(
        group,
        "--shutdown-timeout",
        type=int,
        metavar="SECONDS",
        help="how long workers may take to end before they are killed (TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or 30)",
    )
    parser.flag(group, "--virtual-local-rank", help="LOCAL_RANK is 0 for all; each sees its own GPU only")


def _output(parser: Parser) -> None:
    group = parser.add_argument_group("output")
    parser.option(group, "--log-dir", metavar="DIR", help="folder for the workers' output and errors")
    parser.option(
        group,
        "-r",
        "--redirects",
        default="0",
        metavar="STD",
        help="to files only: 1 stdout, 2 stderr, 3 both; or for each local rank, 0:3,1:2",
    )
    parser.option(group, "-t", "--tee", default="0", metavar="STD", help="to files as well as the console")
    parser.option(
        group,
        "--log-line-prefix-template",
        default="",
        metavar="TEXT",
        help="before each line on the console; ${role_name}, ${local_rank}, ${rank}, ${hostname} ([${rank}]:)",
    )
    parser.option(group, "--local-ranks-filter", default="", metavar="RANKS", help="only these on the console: 0,1")
    for name in ("stdout", "stderr"):
        parser.option(
            group,
            f"--duplicate-{name}-filters",
            type=_texts,
            default=[],
            metavar="TEXT,…",
            help=f"lines of {name} that contain one of these also go to filtered_{name}.log",
        )


def _texts(value: str) -> list[str]:
    """Separated by commas; two commas are one."""
    return [part.replace("\0", ",") for part in value.replace(",,", "\0").split(",")] if value else []


def _accepted(parser: Parser) -> None:
    group = parser.add_argument_group("accepted, because torchrun has them; they change nothing")
    parser.option(group, "--monitor-interval", type=float, metavar="SECONDS", help=argparse.SUPPRESS)
    parser.option(group, "--start-method", choices=["spawn", "fork", "forkserver"], help=argparse.SUPPRESS)
    parser.option(group, "--event-log-handler", default="null", help=argparse.SUPPRESS)
    parser.option(group, "--logs-specs", help=argparse.SUPPRESS)
    parser.option(
        group, "--numa-binding", choices=["node", "socket", "exclusive", "core-complex"], help=argparse.SUPPRESS
    )
    group.description = "--monitor-interval --start-method --event-log-handler --logs-specs --numa-binding"
    group.add_argument(
        "--print-completion",
        "--print_completion",
        action=_Completion,
        choices=["bash", "zsh", "tcsh"],
        help="a completion script for this shell; needs the package shtab",
    )


class _Completion(argparse.Action):
    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        try:
            shtab = import_module("shtab")
        except ImportError:
            parser.exit(1, f"{option_string} needs the package shtab: pip install shtab\n")
        print(shtab.complete(parser, shell=values))
        parser.exit()
