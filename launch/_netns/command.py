"""The command line of `python -m launch.netns`. One thread."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from .cluster import Cluster
from .job import Job, Line, run_job
from .removal import clean
from .shaping import Wire
from .system import NetnsError, Unavailable, require
from .units import duration, rate, share

EXIT_FAILED = 1
EXIT_UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h
EXIT_INTERRUPTED = 130
T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: the job's, 69 when no cluster can be made here, 1 when the system refused something later."""
    options = _parser().parse_args(argv)
    try:
        return int(options.action(options))
    except Unavailable as err:
        _say(options, f"unavailable: {err}", unavailable=str(err))
        return EXIT_UNAVAILABLE
    except NetnsError as err:
        _say(options, f"error: {err}", error=str(err))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(options: argparse.Namespace) -> int:
    if not options.command:
        raise SystemExit("launch.netns run: a command must follow, after --")
    emit = _emit_json if options.json else _emit_text
    try:
        wire = Wire(latency=options.latency, loss=options.loss)
        made = Cluster(hosts=options.hosts, wire=wire, rate=options.rate, seed=options.seed, mtu=options.mtu)
    except ValueError as err:
        raise SystemExit(f"launch.netns run: {err}") from err
    job = Job(
        argv=options.command,
        per_host=options.per_host,
        master_port=options.master_port,
        timeout=options.timeout,
        grace=options.grace,
    )
    with made as cluster:
        outcome = run_job(cluster, job, emit)
    if options.json:
        print(json.dumps(asdict(outcome)), flush=True)
    elif outcome.exit_code != 0:
        who = "the time is over" if outcome.first is None else f"rank {outcome.first} failed first"
        print(f"launch.netns: {who}; exit status {outcome.exit_code}", file=sys.stderr)
    return outcome.exit_code


def _clean(options: argparse.Namespace) -> int:
    require()
    for removed in clean():
        text = f"removed {removed.cluster}: {len(removed.parts)} namespaces, {len(removed.processes)} processes"
        if options.json:
            print(json.dumps(asdict(removed)))
        else:
            print(text)
    return 0


def _check(options: argparse.Namespace) -> int:
    require()
    _say(options, "clusters can be made here", unavailable=None)
    return 0


def _say(options: argparse.Namespace, text: str, **fields: Any) -> None:
    """The one message of a command: as JSON on stdout, or as a line on stderr."""
    if options.json:
        print(json.dumps(fields))
    else:
        print(f"launch.netns: {text}", file=sys.stderr)


def _emit_text(line: Line) -> None:
    file = sys.stdout if line.stream == "stdout" else sys.stderr
    print(f"[{line.host}:{line.rank}] {line.text}", file=file, flush=True)


def _emit_json(line: Line) -> None:
    print(json.dumps(asdict(line)), flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m launch.netns", description="A cluster of hosts on one machine.")
    actions = parser.add_subparsers(required=True, metavar="run | check | clean")
    run = actions.add_parser("run", help="run a program as all ranks of a job, with torchrun's variables")
    run.set_defaults(action=_run)
    run.add_argument("--hosts", type=_argument(int), default=2, help="default 2")
    run.add_argument("--per-host", type=_argument(_positive), default=1, help="processes on each host, default 1")
    run.add_argument("--latency", type=_argument(duration), default=duration("0s"), help="added one way, such as 50ms")
    run.add_argument("--loss", type=_argument(share), default=0.0, help="of the frames, such as 1%%")
    run.add_argument("--rate", type=_argument(rate), help="of each host, such as 1gbit")
    run.add_argument("--seed", type=int, default=0, help="of the losses")
    run.add_argument("--mtu", type=int, default=1500)
    run.add_argument("--master-port", type=int, default=29500)
    run.add_argument("--timeout", type=_argument(duration), help="end the job after this long, with exit status 124")
    run.add_argument(
        "--grace", type=_argument(duration), default=duration("5s"), help="between SIGTERM and SIGKILL, default 5s"
    )
    run.add_argument("--json", action="store_true", help="every line of output, and the outcome, as a JSON object")
    run.add_argument("command", nargs="*", help="after --")
    check = actions.add_parser("check", help=f"whether clusters can be made here: exit status 0 or {EXIT_UNAVAILABLE}")
    check.set_defaults(action=_check)
    check.add_argument("--json", action="store_true")
    sweep = actions.add_parser("clean", help="remove what clusters left behind whose owner was killed")
    sweep.set_defaults(action=_clean)
    sweep.add_argument("--json", action="store_true")
    return parser


def _argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """argparse shows the text of this error, and not of a ValueError."""

    def convert(text: str) -> T:
        try:
            return read(text)
        except ValueError as err:
            raise argparse.ArgumentTypeError(str(err)) from err
        except OverflowError as err:
            raise argparse.ArgumentTypeError(f"{text!r} is too large") from err

    return convert


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(f"must be at least 1, not {number}")
    return number
