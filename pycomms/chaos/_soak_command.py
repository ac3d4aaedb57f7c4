"""``pycomms chaos soak -- COMMAND``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pycomms.chaos._command import UNUSABLE, USAGE, complain
from pycomms.chaos._controller.folder import RunError
from pycomms.chaos._trial import CannotStartError, trial
from pycomms.chaos.core.drawing import SURVIVABLE, draw_soak


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "pycomms chaos soak [options] -- COMMAND …"
    parser.add_argument("--minutes", type=float, default=60.0, help="how long faults come (default: 60)")
    parser.add_argument("--every", type=float, default=10.0, metavar="S", help="seconds between them (default: 10)")
    parser.add_argument("--seed", type=int, default=0, help="which faults, whom, and when (default: 0)")
    parser.add_argument("--ranks", type=int, default=4, help="of the job (default: 4)")
    parser.add_argument(
        "--faults",
        type=lambda text: text.split(","),
        metavar="A,B",
        help="only of these kinds (default: those that a job has to get over)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the run (default: chaos-runs/TIME-NAME)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--quiet", action="store_true", help="do not show the job's output; it is in output.log")


def run(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    if not command:
        complain("soak", "no command: pycomms chaos soak -- pycomms run --nproc-per-node 4 train.py")
        return USAGE
    try:
        seconds, kinds = 60 * arguments.minutes, arguments.faults or SURVIVABLE
        plan = draw_soak(arguments.seed, arguments.ranks, seconds, arguments.every, kinds)
    except ValueError as error:
        complain("soak", error)
        return USAGE
    try:
        done = trial(plan, command, arguments.out, quiet=arguments.quiet)
    except (RunError, CannotStartError) as error:
        complain("soak", error)
        return UNUSABLE
    print(done.json if arguments.json else done.text)
    return done.exit_code
