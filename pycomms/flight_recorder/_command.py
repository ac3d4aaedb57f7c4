"""The command ``pycomms fr``: each subcommand lives in a file of its own, loaded when it is asked for."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Protocol

from pycomms._command_line import Parser, leave_closed_pipe

UNUSABLE = 3
"""Exit code of all subcommands where there is nothing to work on, or what comes of it cannot be written."""


class Subcommand(Protocol):
    """What a module in the table offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Returns the exit code."""
        ...


_SUBCOMMANDS = {
    "analyze": ("pycomms.flight_recorder._analyze_command", "what went wrong, and on which rank"),
    "live": ("pycomms.flight_recorder._live", "what every rank does now, from the rings of this host"),
    "dump": ("pycomms.flight_recorder._dump_command", "copy the rings of processes, alive or not"),
    "stats": ("pycomms.flight_recorder._stats", "counts, latencies, bandwidths and stragglers"),
    "convert": ("pycomms.flight_recorder._convert", "into the formats of torch's tools, and JSON"),
    "merge": ("pycomms.flight_recorder._merge", "the records of many ranks into one file"),
}


def main(argv: list[str]) -> int:
    """Runs ``pycomms fr SUBCOMMAND …`` and returns its exit code."""
    parser = Parser(prog="pycomms fr", description="flight recorder: what every rank of a job did")
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    named = argv[0] if argv else ""
    for name, (home, what) in _SUBCOMMANDS.items():
        subparser = subparsers.add_parser(name, help=what, description=what)
        if name == named:
            _module(home).add_arguments(subparser)
    try:
        arguments = parser.parse_args(argv)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        return _module(_SUBCOMMANDS[arguments.subcommand][0]).run(arguments)
    except BrokenPipeError:
        return leave_closed_pipe()


def _module(home: str) -> Subcommand:
    module: Subcommand = import_module(home)
    return module
