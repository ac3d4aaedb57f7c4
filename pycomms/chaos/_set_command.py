"""``pycomms chaos set [DIR] -- COMMAND``: one run for each plan of a folder, or of the standard set."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pycomms._command_line import USAGE
from pycomms.chaos._command import FAILED, PASSED, UNDECIDED, UNUSABLE, complain, seconds
from pycomms.chaos._controller.folder import RunError, create_set
from pycomms.chaos._plans import plans_of, standard_set
from pycomms.chaos._report.overview import Overview, Row, State, line_of, to_json, to_text
from pycomms.chaos._report.overview_html import to_html
from pycomms.chaos._report.overview_junit import to_junit
from pycomms.chaos._trial import CannotStartError, Done, trial
from pycomms.chaos.core.drawing import settle
from pycomms.chaos.core.ending import Ending, ending_of
from pycomms.chaos.core.invariants import Result
from pycomms.chaos.core.needs import Need, lacking, needs_of
from pycomms.chaos.core.plan import Plan, words
from pycomms.chaos.core.survival import recovery_time

_CODES = {State.PASSED: PASSED, State.FAILED: FAILED, State.UNDECIDED: UNDECIDED}
_STATES = {Result.PASSED: State.PASSED, Result.FAILED: State.FAILED, Result.UNDECIDED: State.UNDECIDED}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "pycomms chaos set [DIR] [options] -- COMMAND …"
    parser.add_argument("plans", nargs="?", type=Path, metavar="DIR", help="folder of plans; none: the standard set")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="A,B", help="only plans of these names")
    parser.add_argument(
        "--duration", type=seconds, metavar="S", help="seconds that each job may take (default: its plan's)"
    )
    parser.add_argument("--list", action="store_true", help="run nothing: say which plans there are")
    parser.add_argument("--out", type=Path, metavar="OUT", help="folder of all runs (default: chaos-runs/TIME-NAME)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    try:
        plans = _chosen(arguments)
    except ValueError as error:
        complain("set", error)
        return USAGE
    if arguments.list:
        print("\n".join(map(_described, plans)))
        return PASSED
    if not command:
        complain("set", "no command: pycomms chaos set -- pycomms run --nproc-per-node 4 -m pycomms.chaos.workload")
        return USAGE
    name = arguments.plans.name if arguments.plans else "standard"
    try:
        folder = create_set(arguments.out, name)
        rows = []
        for number, row in enumerate(_rows(plans, command, folder), 1):
            print(f"{number:3}/{len(plans)} {line_of(row)}", file=sys.stderr, flush=True)
            rows.append(row)
    except (RunError, CannotStartError) as error:
        complain("set", error)
        return UNUSABLE
    overview = Overview(name=name, command=command, folder=folder, rows=rows)
    (folder / "set.json").write_text(to_json(overview) + "\n")
    (folder / "set.xml").write_text(to_junit(overview))
    (folder / "index.html").write_text(to_html(overview))
    print(to_json(overview) if arguments.json else to_text(overview))
    return _CODES[overview.state]


def _chosen(arguments: argparse.Namespace) -> list[Plan]:
    """Raises ValueError."""
    plans = plans_of(arguments.plans) if arguments.plans else standard_set()
    if arguments.only:
        names = [plan.name for plan in plans]
        for name in arguments.only:
            if name not in names:
                raise ValueError(f"--only: given {name!r}, expected of {', '.join(names)}")
        plans = [plan for plan in plans if plan.name in arguments.only]
    if arguments.duration is not None:
        plans = [replace(plan, duration=arguments.duration) for plan in plans]
    # What every job can suffer comes first: it shows whether a job has what the others need.
    return sorted(plans, key=lambda plan: (bool(needs_of(plan)), plan.name))


def _described(plan: Plan) -> str:
    needs = "".join(f" [needs {need.value}]" for need in sorted(needs_of(plan), key=lambda need: need.value))
    return "\n".join([f"{plan.name}: {plan.about}{needs}", *(f"    {words(fault)}" for fault in plan.faults)])


def _rows(plans: Sequence[Plan], command: Sequence[str], folder: Path) -> Iterator[Row]:
    lacks: set[Need] = set()
    is_interrupted = False
    for plan in plans:
        missing = needs_of(plan) & lacks
        if is_interrupted:
            yield Row(plan=plan, state=State.UNDECIDED, ending=Ending.UNKNOWN, why="the set was interrupted")
            continue
        if missing:
            yield _not_applicable(plan, missing)
            continue
        done = trial(settle(plan), command, folder / plan.name, quiet=True)
        log = done.facts.log
        lacks |= lacking(log)
        missing = needs_of(plan) & lacks
        yield _not_applicable(plan, missing) if missing else _row(plan, done)
        is_interrupted = done.is_interrupted


def _not_applicable(plan: Plan, missing: frozenset[Need] | set[Need]) -> Row:
    needs = " and ".join(sorted(need.value for need in missing))
    return Row(
        plan=plan,
        state=State.NOT_APPLICABLE,
        ending=Ending.NOT_APPLICABLE,
        why=f"it needs {needs}, which the job has not",
    )


def _row(plan: Plan, done: Done) -> Row:
    log, judgement = done.facts.log, done.facts.judgement
    took = [recovery_time(log, hit) for hit in log.hits]
    return Row(
        plan=plan,
        state=_STATES[judgement.result],
        ending=ending_of(log, judgement.findings),
        why=judgement.why,
        seconds=log.end["t"] if log.end else 0.0,
        recovery=max((one for one in took if one is not None), default=None),
        folder=done.facts.folder,
        findings=judgement.findings,
    )
