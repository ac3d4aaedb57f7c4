"""The records that a command line names: dumps, rings, folders of them, and files of ``pycomms fr merge``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from pycomms.flight_recorder import _load
from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder._processes import one_of_each_process
from pycomms.flight_recorder._words import printable


def add_paths(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="dumps, rings, merged files, or folders of them")


def load_or_complain(command: str, paths: Sequence[str]) -> list[Record]:
    """Everything that can be read, by rank; what cannot is said on stderr. Empty when there was nothing."""
    files, nothing = _load.find_files(paths)
    loaded = _load.load(files)
    for text in (*(f"no such file: {path}" for path in nothing), *loaded.warnings):
        print(f"pycomms fr {command}: {printable(text)}", file=sys.stderr)
    records = one_of_each_process(loaded.records)
    if not records:
        print(f"pycomms fr {command}: no records in {', '.join(map(printable, paths))}", file=sys.stderr)
    return sorted(records, key=lambda record: (record.rank, record.host, record.pid, record.source))
