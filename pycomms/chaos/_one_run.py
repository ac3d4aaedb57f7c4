"""What subcommands have in common that do one run: their options, and what they print."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pycomms.chaos._command import UNUSABLE, complain, whole
from pycomms.chaos._controller.folder import RunError
from pycomms.chaos._trial import CannotStartError, trial
from pycomms.chaos.core.plan import Plan


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--faults",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="only these kinds (default: the plan's; where one is drawn, those that a job has to get over)",
    )
    parser.add_argument("--ranks", type=whole, default=4, help="of the job, for a plan that is drawn (default: 4)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the run (default: chaos-runs/TIME-NAME)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--quiet", action="store_true", help="do not show the job's output; it is in output.log")


def perform(name: str, plan: Plan, command: Sequence[str], arguments: argparse.Namespace) -> int:
    """Returns the exit code."""
    try:
        done = trial(plan, command, arguments.out, quiet=arguments.quiet)
    except (RunError, CannotStartError) as error:
        complain(name, error)
        return UNUSABLE
    print(done.json if arguments.json else done.text)
    return done.exit_code
