"""Tries our backend on the GPUs of this machine, in five minutes. Run it in the root of the checkout."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from . import _build
from ._report import ExitCode, Report

_EXIT_CODES = """exit codes:
  0    all that was run has passed; what was skipped is listed with the reason
  1    a check has failed
  2    wrong arguments
  3    torch sees no GPU
  4    something that is needed is missing, or the extension cannot be built
  5    nothing has failed, but an area did not get through in its time
  130  interrupted"""


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        _build.check_python()
    except _build.CannotBuild as error:
        print(f"tests.gpu: {error}", file=sys.stderr)
        return ExitCode.CANNOT_BUILD
    from . import _run  # imports torch

    options = _parser(list(_run.AREAS)).parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    report = Report()
    try:
        code = _run.run(
            _run.Options(
                areas=options.areas,
                emulated=options.emulated,
                devices=options.devices,
                quick=options.quick,
                build=not options.no_build,
            ),
            report,
        )
    except KeyboardInterrupt:
        code = ExitCode.INTERRUPTED
    except _build.CannotBuild as error:
        print(f"tests.gpu: {error}", file=sys.stderr)
        return ExitCode.CANNOT_BUILD
    if code is ExitCode.NO_GPU:
        print("tests.gpu: torch sees no GPU (--emulated tries this program without one)", file=sys.stderr)
    if report.areas:
        print(f"\n{report.text()}\n\n{code.name.lower().replace('_', ' ')}")
    if options.json:
        options.json.write_text(json.dumps({**report.to_json(), "exit_code": int(code)}, indent=1) + "\n")
    return code


def _parser(areas: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu",
        description=__doc__,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was found to this file, too")
    parser.add_argument("--areas", nargs="+", choices=areas, default=areas, help="only these", metavar="AREA")
    parser.add_argument("--emulated", action="store_true", help="on the emulated CUDA: tries this program, not a GPU")
    parser.add_argument("--devices", type=int, default=2, metavar="N", help="GPUs that are emulated (default: 2)")
    parser.add_argument("--quick", action="store_true", help="a part of the cases")
    parser.add_argument("--no-build", action="store_true", help="take the extension as it is")
    return parser


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
