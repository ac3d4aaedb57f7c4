"""``pycomms chaos replay RUN [-- COMMAND]``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pycomms.chaos._command import UNUSABLE, complain
from pycomms.chaos._controller.folder import RunError, recorded
from pycomms.chaos._judging import judge_folder
from pycomms.chaos._trial import CannotStartError, trial
from pycomms.chaos.core.invariants import Judgement


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "pycomms chaos replay RUN [options] [-- COMMAND …]"
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of the run that is to be done again")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the new run (default: chaos-runs/TIME-NAME)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--quiet", action="store_true", help="do not show the job's output")


def run(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    try:
        before = recorded(arguments.folder)
        then = judge_folder(arguments.folder).judgement
        done = trial(before.plan, command or before.command, arguments.out, quiet=arguments.quiet)
    except (RunError, CannotStartError) as error:
        complain("replay", error)
        return UNUSABLE
    print(done.json if arguments.json else f"{done.text}\n\n{compared(then, done.facts.judgement)}")
    return done.exit_code


def compared(then: Judgement, now: Judgement) -> str:
    """One line: whether it has ended in the same way."""
    if (then.result, then.violated) == (now.result, now.violated):
        return f"as before: {now.why}"
    return f"not as before: {then.result.value} ({then.why}) then, {now.result.value} ({now.why}) now"
