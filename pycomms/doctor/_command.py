"""The command ``pycomms doctor``. Imports neither torch nor the extension: its children do."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping

from pycomms._command_line import Parser, leave_closed_pipe, number
from pycomms._config import Config, inherited
from pycomms.doctor import gpus, limits, network, self_check, settings, table, versions
from pycomms.doctor.child import Child, Ended, Told, python, read
from pycomms.doctor.finding import Finding, Section, note, problems_of
from pycomms.doctor.render import as_json, text

WELL, PROBLEMS = 0, 1
_INTERRUPTED = 130
_SECONDS = 30.0
_EXIT_CODES = """\
exit codes:
  0    all is well; there may be notes
  1    there are problems
  4    wrong usage
  130  interrupted, or asked to end (SIGTERM)
"""


def main(argv: list[str]) -> int:
    """Runs ``pycomms doctor …`` and returns its exit code."""
    try:
        arguments = parse(argv)
    except SystemExit as end:
        return int(end.code or 0)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal or a path that is not of UTF-8
    began = time.monotonic()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # children and files go then too
    try:
        told, sections = examine(inherited(), arguments)
        print(as_json(sections, told, time.monotonic() - began) if arguments.json else text(sections), flush=True)
    except BrokenPipeError:
        return leave_closed_pipe()
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return PROBLEMS if problems_of(sections) else WELL


def parse(argv: list[str]) -> argparse.Namespace:
    """Raises SystemExit for --help and for wrong usage."""
    parser = Parser(
        prog="pycomms doctor",
        description="what of pycomms works on this machine, and what to do about what does not",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--no-self-check", action="store_true", help="start no ranks")
    parser.add_argument(
        "--timeout",
        type=number(1, 3600, "seconds"),
        default=_SECONDS,
        metavar="S",
        help="seconds that looking at torch may take, and the self-check again (default: %(default)g)",
    )
    return parser.parse_args(argv)


def examine(environment: Mapping[str, str], arguments: argparse.Namespace) -> tuple[Told, list[Section]]:
    """What the child has told that looked at torch, and all sections."""
    told = look_inside(arguments.timeout)
    try:
        config = Config.from_environment(environment)
    except ValueError:  # told of among the variables
        config = Config()
    hardware = gpus.look(environment)
    records_in_shm = not config.fr_dir and config.fr_entries > 0
    found: dict[str, Callable[[], list[Finding]]] = {
        "versions": lambda: versions.judge(versions.look(), told),
        "nccl": lambda: gpus.judge_nccl(hardware, told),
        "gpu": lambda: gpus.judge_gpus(hardware, told),
        "capabilities": lambda: table.judge(told),
        "limits": lambda: limits.judge(limits.look(), told, records_in_shm=records_in_shm),
        "environment": lambda: settings.judge(environment),
        "network": lambda: network.judge(
            network.look(), told, wanted=config.socket_ifname, family=config.socket_family
        ),
        "self-check": lambda: (
            self_check.skipped("--no-self-check") if arguments.no_self_check else check(told, arguments.timeout)
        ),
    }
    return told, [Section(name=name, findings=tuple(_or_trouble(name, judge))) for name, judge in found.items()]


def _or_trouble(name: str, judge: Callable[[], list[Finding]]) -> list[Finding]:
    """A system that lacks what is looked at still gets all else."""
    try:
        return judge()
    except OSError as error:
        return [note(name, f"could not be looked at: {error}")]


def look_inside(timeout: float) -> Told:
    """What the child tells that may hang or crash."""
    try:
        shared = os.memfd_create("pycomms-doctor", os.MFD_CLOEXEC)
    except OSError:  # told of among the limits
        shared = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        command = python("pycomms.doctor._inside", [f"/proc/{os.getpid()}/fd/{shared}"], timeout)
        return read(Child(command).finish(time.monotonic() + timeout))
    except OSError as error:
        return read(Ended(out="", err=str(error), code=1, is_late=False))
    finally:
        os.close(shared)


def check(told: Told, timeout: float) -> list[Finding]:
    """The self-check, where torch and the extension work."""
    extension = told.of("extension")
    if extension is None or extension["error"]:
        return self_check.skipped("torch and the extension have to work first")
    try:
        return self_check.judge(self_check.run(timeout))
    except OSError as error:
        return self_check.failed(error)
