"""The command ``pycomms chaos``: each subcommand lives in a file of its own, loaded when it is asked for."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, Protocol

from pycomms._command_line import Parser, leave_closed_pipe

PASSED, FAILED, UNDECIDED, UNUSABLE = 0, 1, 2, 3

EXIT_CODES = """\
exit codes:
  0  every invariant held, or those were violated that the plan expects to be
  1  an invariant was violated; of a set: in one run at least
  2  undecided: a fault of the plan did not happen, or the run was interrupted
  3  the job cannot be started, or the folder of a run is none, is damaged or cannot be written
  4  wrong usage, or a plan that makes no sense
"""

_SUBCOMMANDS = {
    "run": ("pycomms.chaos._run_command", "start a job, do to it what a plan says, and judge it"),
    "soak": (
        "pycomms.chaos._soak_command",
        "fault upon fault, for an hour or as long as you like, and what it costs",
    ),
    "set": ("pycomms.chaos._set_command", "run all plans of a folder, or the standard set, one after another"),
    "replay": ("pycomms.chaos._replay_command", "do a run again, and see whether it ends the same way"),
    "shrink": ("pycomms.chaos._shrink_command", "find a smaller plan with which the job fails in the same way"),
    "report": ("pycomms.chaos._report_command", "judge the folder of a run again, and write its reports"),
    "list": ("pycomms.chaos._list_command", "all faults, with their settings; points, operations, invariants"),
}


class Subcommand(Protocol):
    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace, command: Sequence[str]) -> int:
        """command: what stands behind ``--``. Returns the exit code."""
        ...


class _Parser(Parser):
    def error(self, message: str) -> NoReturn:
        behind = "; the job's command stands behind --" if message.startswith("unrecognized") else ""
        super().error(message + behind)


def main(argv: list[str]) -> int:
    """Runs ``pycomms chaos SUBCOMMAND …`` and returns its exit code."""
    try:
        arguments, command = parse(argv)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        return _module(_SUBCOMMANDS[arguments.subcommand][0]).run(arguments, command)
    except KeyboardInterrupt:  # while nothing runs: a run itself ends in order
        complain(arguments.subcommand, "interrupted")
        return UNDECIDED
    except BrokenPipeError:
        return leave_closed_pipe()


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and what stands behind ``--``. Raises SystemExit for --help and for wrong usage."""
    own, command = _split(argv)
    parser = _Parser(
        prog="pycomms chaos", description="faults for a real job, on purpose, and whether it gets over them"
    )
    subparsers = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    named = own[0] if own else ""
    for name, (home, what) in _SUBCOMMANDS.items():
        subparser = subparsers.add_parser(
            name, help=what, description=what, formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXIT_CODES
        )
        if name == named:
            _module(home).add_arguments(subparser)
    return parser.parse_args(own), command


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in argv:
        return argv, []
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def _module(home: str) -> Subcommand:
    module: Subcommand = import_module(home)
    return module


def whole(text: str) -> int:
    """Of an option."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"given {text!r}, expected a whole number, 0 or more")
    return int(text)


def seconds(text: str) -> float:
    """Of an option; also minutes."""
    try:
        given = float(text)
    except ValueError:
        given = math.nan
    if not 0 < given < math.inf:
        raise argparse.ArgumentTypeError(f"given {text!r}, expected a number above 0")
    return given


def complain(subcommand: str, problem: object) -> None:
    print(f"pycomms chaos {subcommand}: {problem}", file=sys.stderr)
