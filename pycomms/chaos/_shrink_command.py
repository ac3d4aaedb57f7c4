"""``pycomms chaos shrink RUN [-- COMMAND]``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pycomms.chaos._command import PASSED, UNDECIDED, UNUSABLE, complain, seconds, whole
from pycomms.chaos._controller.folder import RunError, recorded
from pycomms.chaos._judging import judge_folder
from pycomms.chaos._trial import CannotStartError, trial
from pycomms.chaos.core.invariants import Result
from pycomms.chaos.core.plan import Plan, words
from pycomms.chaos.core.shrink import shrink
from pycomms.chaos.core.toml import to_toml


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "pycomms chaos shrink RUN [options] [-- COMMAND …]"
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of a run that has failed")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the trials go (default: RUN/shrink)")
    parser.add_argument(
        "--tries", type=whole, default=1, help="runs of a plan before it counts as passing (default: 1)"
    )
    parser.add_argument("--budget", type=seconds, default=600.0, metavar="S", help="seconds in all (default: 600)")


def run(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    try:
        before = recorded(arguments.folder)
        judgement = judge_folder(arguments.folder).judgement
        if judgement.result is not Result.FAILED:
            raise RunError(f"{arguments.folder}: has {judgement.result.value}, expected a run that has failed")
        trials = _Trials(arguments, command or before.command, set(judgement.violated))
        smaller = shrink(before.plan, trials.fails)
        target = trials.folder / "shrunk.toml"
        target.write_text(to_toml(smaller))
    except (RunError, CannotStartError, OSError) as error:
        complain("shrink", error)
        return UNUSABLE
    print(f"{len(before.plan.faults)} faults, {len(smaller.faults)} of them are enough ({trials.count} runs): {target}")
    for fault in smaller.faults:
        print(f"  {words(fault)}")
    if trials.why_ended:
        print(f"{trials.why_ended} before all had been tried", file=sys.stderr)
        return UNDECIDED
    return PASSED


class _Trials:
    """Runs plans, each in a folder of its own. One that fails in another way as well has failed as before."""

    def __init__(self, arguments: argparse.Namespace, command: Sequence[str], violated: set[str]) -> None:
        self.folder: Path = arguments.out or arguments.folder / "shrink"
        self.count = 0
        self.why_ended = ""
        self._command = command
        self._violated = violated
        self._tries: int = max(arguments.tries, 1)
        self._until = time.monotonic() + arguments.budget

    def fails(self, plan: Plan) -> bool:
        for _ in range(self._tries):
            if time.monotonic() > self._until:
                self.why_ended = self.why_ended or "the time was over (--budget)"
            if self.why_ended:
                return False
            self.count += 1
            done = trial(plan, self._command, self.folder / f"{self.count:03}", quiet=True)
            if done.is_interrupted:
                self.why_ended = "the search was interrupted"
                return False
            has_failed = self._violated <= set(done.facts.judgement.violated)
            said = ", ".join(words(fault) for fault in plan.faults)
            print(f"{self.count:4} {'fails ' if has_failed else 'passes'} {said}", file=sys.stderr)
            if has_failed:
                return True
        return False
