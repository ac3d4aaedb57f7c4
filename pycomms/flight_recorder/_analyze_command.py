"""``pycomms fr analyze PATH…``: reads, analyzes, reports. Exit codes are in the help text."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module

from pycomms._config import config
from pycomms.flight_recorder._command import UNUSABLE
from pycomms.flight_recorder._jobs import one_job
from pycomms.flight_recorder._load import Loaded, find_files, load
from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder._places import base_folder
from pycomms.flight_recorder._progress import progress_bar
from pycomms.flight_recorder._report import to_json, to_text
from pycomms.flight_recorder._words import printable
from pycomms.flight_recorder.analysis import Analysis, Verdict, analyze
from pycomms.flight_recorder.analysis._text import ranks_text

_LONGEST_S = 1e9
_NAMED = 8
_FINE, _FAULT, _UNDECIDED = 0, 1, 2

_EXIT_CODES = """\
exit codes:
  0  no fault
  1  a fault, with its root cause
  2  a fault, undecided: the report says what would decide it
  3  nothing to analyze, a file that wanted to run code, or a report that cannot be written
  4  wrong usage
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXIT_CODES
    parser.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="files, folders or patterns: rings, pickles, JSON (default: the jobs of this user on this host)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--html", metavar="FILE", help="also write a report that one file holds")
    parser.add_argument("--perfetto", metavar="FILE", help="also write a trace for ui.perfetto.dev")
    parser.add_argument("--ranks", type=_ranks, metavar="LIST", help="show only what concerns these ranks: 0,4-7")
    parser.add_argument("--groups", type=_names, metavar="LIST", help="show only these groups: names or descriptions")
    parser.add_argument(
        "--patience",
        type=_seconds,
        metavar="S",
        help="in a job that runs, call it a fault when ranks wait for longer (default: a tenth of the timeout)",
    )
    parser.add_argument("--explain", action="store_true", help="also say how the verdict was reached")


def _ranks(text: str) -> frozenset[int]:
    ranks: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        try:
            low, high = int(first), int(last or first)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected ranks such as 0,4-7, got {text!r}") from None
        if not 0 <= low <= high < 1 << 24:
            raise argparse.ArgumentTypeError(f"expected ascending ranks such as 0,4-7, got {text!r}")
        ranks.update(range(low, high + 1))
    return frozenset(ranks)


def _seconds(text: str) -> int:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < _LONGEST_S:
        raise argparse.ArgumentTypeError(f"expected seconds, got {text!r}")
    return int(seconds * 1e9)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split(","))


def run(arguments: argparse.Namespace) -> int:
    files, nothing = find_files(arguments.paths or [str(base_folder(config().fr_dir))])
    for path in nothing:
        print(f"pycomms fr analyze: nothing at {path}", file=sys.stderr)
    with progress_bar("reading") as progress:
        loaded = load(files, progress)
    for refusal in loaded.refused:
        print(f"pycomms fr analyze: {refusal}", file=sys.stderr)
    if not loaded.records:
        _say_why_not(loaded)
        return UNUSABLE
    records, others = one_job(loaded.records)
    loaded = dataclasses.replace(loaded, records=tuple(records))  # warnings are of this job's
    if others:
        print(f"pycomms fr analyze: {_of_several(records, others)}", file=sys.stderr)
    degraded = bool(loaded.unreadable or loaded.refused or nothing)
    warnings = (*loaded.warnings, *(f"nothing at {path}" for path in nothing))
    analysis = analyze(records, warnings, degraded=degraded, patience_ns=arguments.patience)
    for unknown in _unknown(analysis, arguments.ranks, arguments.groups):
        print(f"pycomms fr analyze: {unknown}", file=sys.stderr)
    shown = _only(analysis, arguments.ranks, arguments.groups)
    # A report that is narrowed to nothing would call the job healthy.
    drawn = shown if shown.findings or not analysis.findings else analysis
    unwritten = False
    for path, writer in ((arguments.html, "_html"), (arguments.perfetto, "_perfetto")):
        if not path:
            continue
        try:
            import_module(f"pycomms.flight_recorder.{writer}").write(path, records, drawn)
        except OSError as error:
            print(f"pycomms fr analyze: cannot write {path}: {error.strerror}", file=sys.stderr)
            unwritten = True
    print(to_json(shown, arguments.explain) if arguments.json else to_text(shown, arguments.explain))
    return UNUSABLE if loaded.refused or unwritten else exit_code(analysis)


def _of_several(records: Sequence[Record], others: Sequence[str]) -> str:
    job = next(one.job for one in records if one.job)
    which = "the last that lives" if any(one.alive for one in records if one.job) else "the last"
    return f"there are {len(others) + 1} jobs: this is {printable(job)}, {which}. For another give its folder"


def exit_code(analysis: Analysis) -> int:
    if not analysis.findings:
        return _FINE
    first = analysis.findings[0]
    decided = first.root_ranks or first.verdict is Verdict.ALL_JOINED_NOT_DONE
    return _FAULT if decided else _UNDECIDED


def _say_why_not(loaded: Loaded) -> None:
    for text in (*loaded.unreadable, *loaded.strays):
        print(f"pycomms fr analyze: {text}", file=sys.stderr)
    print("pycomms fr analyze: no record of any rank to analyze", file=sys.stderr)


def _unknown(analysis: Analysis, ranks: frozenset[int] | None, groups: frozenset[str] | None) -> Iterator[str]:
    """What the command line asks for, and is not there."""
    known_ranks = {*analysis.ranks, *analysis.absent_ranks}
    if ranks is not None and not ranks & known_ranks:
        yield f"--ranks: none of these is in the job, which has {ranks_text(sorted(known_ranks))}"
    names = {name for group in analysis.groups for name in (group.name, group.description)}
    if groups is not None and not groups & names:
        labels = sorted({printable(group.label) for group in analysis.groups})
        more = f" and {len(labels) - _NAMED} more" if len(labels) > _NAMED else ""
        yield f"--groups: none of these is in the job, which has {', '.join(labels[:_NAMED])}{more}"


def _only(analysis: Analysis, ranks: frozenset[int] | None, groups: frozenset[str] | None) -> Analysis:
    """Narrows what is shown. What is wrong with the job is shown in any case."""

    def concerns(name: str, description: str, concerned: set[int]) -> bool:
        by_group = groups is None or name in groups or description in groups
        return by_group and (ranks is None or bool(ranks & concerned))

    findings = tuple(
        finding
        for finding in analysis.findings
        if finding.group is None
        or concerns(
            finding.group.name,
            finding.group.description,
            {*finding.root_ranks, *finding.victim_ranks, *(rank for side in finding.sides for rank in side.ranks)},
        )
    )
    edges = tuple(
        edge
        for edge in analysis.edges
        if concerns(edge.group.name, edge.group.description, {edge.waiter, *edge.waits_for})
    )
    return dataclasses.replace(analysis, findings=findings or analysis.findings[:1], edges=edges)
