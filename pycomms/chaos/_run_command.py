"""``pycomms chaos run [PLAN] -- COMMAND``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pycomms._command_line import USAGE
from pycomms.chaos._command import complain, seconds, whole
from pycomms.chaos._one_run import add_options, perform
from pycomms.chaos._plans import plan_of
from pycomms.chaos.core.drawing import SURVIVABLE, check_kinds, draw_plan, settle
from pycomms.chaos.core.plan import Plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "pycomms chaos run [PLAN] [options] -- COMMAND …"
    parser.add_argument("plan", nargs="?", type=Path, metavar="PLAN", help="TOML; none: one is drawn from the seed")
    parser.add_argument("--seed", type=whole, help="of a plan that is drawn, and of ranks that a plan leaves open")
    parser.add_argument(
        "--duration", type=seconds, metavar="S", help="seconds that the job may take (default: the plan's)"
    )
    add_options(parser)


def run(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    if not command:
        complain("run", "no command: pycomms chaos run PLAN -- pycomms run --nproc-per-node 4 train.py")
        return USAGE
    try:
        plan = _plan(arguments)
    except ValueError as error:
        complain("run", error)
        return USAGE
    return perform("run", plan, command, arguments)


def _plan(arguments: argparse.Namespace) -> Plan:
    if arguments.plan is None:
        seed = arguments.seed if arguments.seed is not None else 0
        plan = draw_plan(seed, arguments.ranks, arguments.faults or SURVIVABLE)
    else:
        plan = plan_of(arguments.plan)
        if arguments.seed is not None:
            plan = replace(plan, seed=arguments.seed)
        if arguments.faults:
            check_kinds(arguments.faults)
            kept = tuple(fault for fault in plan.faults if fault.kind in arguments.faults)
            if not kept:
                kinds = ", ".join(sorted({fault.kind for fault in plan.faults}))
                raise ValueError(f"--faults: given {','.join(arguments.faults)}, expected some of the plan's: {kinds}")
            plan = replace(plan, faults=kept)
    if arguments.duration is not None:
        plan = replace(plan, duration=arguments.duration)
    return settle(plan)
