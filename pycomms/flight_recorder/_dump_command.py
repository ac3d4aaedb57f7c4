"""``pycomms fr dump``: copies the rings of processes from outside. They need not answer, or even be alive."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import struct
import sys
import time
from pathlib import Path

from pycomms._config import config
from pycomms.flight_recorder import _places, _ring
from pycomms.flight_recorder._command import UNUSABLE

_RECENT_CLOCKS_AT = 136  # csrc/recorder/format.h: recent_monotonic_ns, recent_wall_ns
_MOST_NAMES = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", help="the id of a process on this host, or a folder or file of rings")
    parser.add_argument("-o", "--output", type=Path, help="folder for the dumps (default: where the rings lie)")
    parser.add_argument("--json", action="store_true", help="print the paths as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Exit codes: 0; 3: there is no such ring, or it cannot be read or written."""
    rings = find_rings(arguments.what, _places.base_folder(config().fr_dir))
    if not rings:
        print(f"pycomms fr dump: no ring of {arguments.what}", file=sys.stderr)
        return UNUSABLE
    written, failed = [], False
    for ring in rings:
        try:
            written.append(str(copy_ring(ring, arguments.output or ring.parent)))
        except (OSError, _ring.NotARingError) as error:
            print(f"pycomms fr dump: {error}", file=sys.stderr)
            failed = True
    print(json.dumps({"schema": 1, "dumps": written}) if arguments.json else "\n".join(written))
    return UNUSABLE if failed else 0


def find_rings(what: str, base: Path) -> list[Path]:
    """Of a process, by its id; of a folder, with all below it; or the file itself."""
    if what.isdecimal() and not Path(what).exists():
        return sorted(base.glob(f"*/*.{what}.ring"))
    path = Path(what)
    return sorted(path.rglob("*.ring")) if path.is_dir() else [path] if path.is_file() else []


def copy_ring(ring: Path, folder: Path) -> Path:
    """Copies a ring, with the time of the copy, into a file that is not there yet; entries in the writing show as such.

    Raises:
        NotARingError: it is something else.
        OSError: it cannot be read, or the copy cannot be written.
    """
    record = _ring.read(ring)  # not a ring: said before anything is written
    data = bytearray(ring.read_bytes())
    if record.alive:
        struct.pack_into("<qq", data, _RECENT_CLOCKS_AT, time.monotonic_ns(), time.time_ns())
    folder.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        target = folder / f"{ring.stem}.{number}.dump"
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if number == _MOST_NAMES:
                raise
            continue
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            target.unlink()  # the disk is full: half a dump would be taken for one that was cut off
            raise
        return target
    raise AssertionError("the loop returns or raises")
