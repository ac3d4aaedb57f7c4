"""``pycomms fr merge``: the records of a whole job in one file, to keep, to send, or to analyze later."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pycomms.flight_recorder import _bundle
from pycomms.flight_recorder._command import UNUSABLE
from pycomms.flight_recorder._inputs import add_paths, load_or_complain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_paths(parser)
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="the file to write")


def run(arguments: argparse.Namespace) -> int:
    records = load_or_complain("merge", arguments.paths)
    if not records:
        return UNUSABLE
    try:
        count = _bundle.write(arguments.output, records)
    except OSError as error:
        print(f"pycomms fr merge: cannot write {arguments.output}: {error.strerror}", file=sys.stderr)
        return UNUSABLE
    print(f"{count} records in {arguments.output} ({arguments.output.stat().st_size} bytes)")
    return 0
