"""``pycomms chaos soak -- COMMAND``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pycomms._command_line import USAGE
from pycomms.chaos._command import complain, seconds, whole
from pycomms.chaos._one_run import add_options, perform
from pycomms.chaos.core.drawing import SURVIVABLE, draw_soak


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "pycomms chaos soak [options] -- COMMAND …"
    parser.add_argument("--minutes", type=seconds, default=60.0, help="how long faults come (default: 60)")
    parser.add_argument("--every", type=seconds, default=10.0, metavar="S", help="seconds between them (default: 10)")
    parser.add_argument("--seed", type=whole, default=0, help="which faults, whom, and when (default: 0)")
    add_options(parser)


def run(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    if not command:
        complain("soak", "no command: pycomms chaos soak -- pycomms run --nproc-per-node 4 train.py")
        return USAGE
    try:
        kinds = arguments.faults or SURVIVABLE
        plan = draw_soak(arguments.seed, arguments.ranks, 60 * arguments.minutes, arguments.every, kinds)
    except ValueError as error:
        complain("soak", error)
        return USAGE
    return perform("soak", plan, command, arguments)
