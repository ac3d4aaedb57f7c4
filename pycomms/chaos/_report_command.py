"""``pycomms chaos report RUN``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from pycomms.chaos._command import UNUSABLE, complain
from pycomms.chaos._controller.folder import RunError
from pycomms.chaos._trial import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="RUN", help="folder of a run")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(arguments: argparse.Namespace, command: Sequence[str]) -> int:
    try:
        done = report(arguments.folder)
    except RunError as error:
        complain("report", error)
        return UNUSABLE
    print(done.json if arguments.json else done.text)
    return done.exit_code
