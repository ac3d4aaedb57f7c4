"""``pycomms fr live``: what every rank on this machine is doing now, read from the rings while the job runs.

Records become rows in pure functions; the shell at the bottom reads the files and draws. The job takes no notice.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pycomms._command_line import number
from pycomms._config import config
from pycomms.flight_recorder._command import UNUSABLE
from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder._places import base_folder
from pycomms.flight_recorder._standing import Standing, stand
from pycomms.flight_recorder._words import duration_text, printable

if TYPE_CHECKING:
    from rich.console import Group as Stack

Reader = Callable[[Path], Record]

COLUMNS = ("job", "rank", "host", "pid", "alive", "in operation", "group", "seq", "age", "last completed", "called at")
_FOLDERS = 4
"""That are named."""
_RIGHT = frozenset({"rank", "pid", "seq", "age"})


def of_interest(records: Sequence[Record]) -> list[Record]:
    """Rings stay for a day after their process. Shown are the jobs of which somebody lives, without those who left in
    order; or else the last job, whole.
    """
    living = {record.job for record in records if record.alive is not False}
    if living:
        return [record for record in records if record.job in living and not (record.closed and not record.alive)]
    last = max(records, key=lambda record: record.taken_ns, default=None)
    return [record for record in records if last is not None and record.job == last.job]


def look(records: Sequence[Record], now_ns: int) -> list[Standing]:
    """One row a process, by job and rank; those that are not alive last."""
    rows = [stand(record, now_ns) for record in records]
    return sorted(rows, key=lambda row: (row.job, row.alive is False, row.rank, row.host, row.pid))


def cells(row: Standing) -> tuple[str, ...]:
    """A row as texts, in the order of COLUMNS."""
    alive = {True: "yes", False: "NO", None: "?"}[row.alive]
    operation = row.operation
    if row.operation and row.state not in ("issued", "running"):
        operation = f"{row.operation} ({row.state})"
    elif row.in_flight > 1:
        operation = f"{row.operation} (+{row.in_flight - 1} behind)"
    age = row.age_ns if row.operation else row.quiet_ns
    texts = (
        row.job,
        str(row.rank) if row.rank >= 0 else "?",
        row.host,
        str(row.pid or "?"),
        alive,
        operation or "-",
        row.group or "-",
        str(row.sequence) if row.sequence else "-",
        duration_text(age) if age is not None else "?",
        row.last_completed or "-",
        row.site or row.last_site or "-",
    )
    return tuple(map(printable, texts))


def columns(rows: Sequence[Standing]) -> list[int]:
    """Which of COLUMNS to show: the job only where there are several."""
    several = len({row.job for row in rows}) > 1
    return [*range(0 if several else 1, len(COLUMNS))]


def table(rows: Sequence[Standing]) -> str:
    """Plain text, a line a rank: for pipes, logs and terminals without colours."""
    body = [COLUMNS, *map(cells, rows)]
    shown = columns(rows)
    widths = {column: max(len(line[column]) for line in body) for column in shown}
    lines = [
        "  ".join(
            line[column].rjust(widths[column]) if COLUMNS[column] in _RIGHT else line[column].ljust(widths[column])
            for column in shown
        ).rstrip()
        for line in body
    ]
    return "\n".join(lines)


def notes(rows: Sequence[Standing], problems: Sequence[str]) -> list[str]:
    """Below the table: what could not be read, and the folders that the other commands want to be told."""
    folders = sorted({str(Path(row.source).parent) for row in rows})
    places = [f"records: {printable(folder)}" for folder in folders[:_FOLDERS]]
    if len(folders) > _FOLDERS:
        places.append(f"records: and {len(folders) - _FOLDERS} folders more")
    unread = [f"not readable: {printable(problem)}" for problem in problems]
    gone = ["none of these processes is alive"] if rows and all(row.alive is False for row in rows) else []
    return [*unread, *gone, *places]


def as_json(rows: Sequence[Standing], now_ns: int, problems: Sequence[str]) -> str:
    """One line: with ``--json`` each look is one."""
    return json.dumps(
        {"schema": 1, "time_ns": now_ns, "ranks": [dataclasses.asdict(row) for row in rows], "problems": [*problems]},
        ensure_ascii=False,
    )


def find_rings(folder: Path) -> list[Path]:
    """The rings in `folder` and one level below it: a folder for each job. One with several names counts once."""
    found: dict[Path, Path] = {}
    for path in (*folder.glob("*.ring"), *folder.glob("*/*.ring")):
        found.setdefault(path.resolve(), path)
    return sorted(found.values())


def read_all(files: Sequence[Path], read: Reader) -> tuple[list[Record], list[str]]:
    """What could be read, and what could not, in words. A ring may vanish or be half made while we look."""
    records, problems = [], []
    for file in files:
        try:
            records.append(read(file))
        except (OSError, ValueError) as error:
            problems.append(f"{file.name}: {error}")
    return records, problems


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", nargs="?", type=Path, metavar="DIR", help="where the rings are (default: of this user's jobs)"
    )
    parser.add_argument("--once", action="store_true", help="look once and exit")
    parser.add_argument("--all", action="store_true", help="also processes that left in order, and earlier jobs")
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each look")
    parser.add_argument(
        "--interval",
        type=number(0, 86_400, "seconds"),
        default=1.0,
        metavar="S",
        help="seconds between looks (default 1)",
    )


def run(arguments: argparse.Namespace, *, read: Reader | None = None) -> int:
    """Looks until it is interrupted, or once. Exit code 3 when there is no ring."""
    folder: Path = arguments.folder or default_folder()
    if not find_rings(folder):
        print(
            f"pycomms fr live: no *.ring in {folder}. Give the folder that the job records into (PYCOMMS_FR_DIR), and"
            " run as the same user on the same host as the ranks.",
            file=sys.stderr,
        )
        return UNUSABLE
    reader: Reader = read or import_module("pycomms.flight_recorder._ring").read

    def looks() -> Iterator[tuple[list[Standing], list[str], int]]:
        while True:
            records, problems = read_all(find_rings(folder), reader)
            now = time.time_ns()
            yield look(records if arguments.all else of_interest(records), now), problems, now
            if arguments.once:
                return
            time.sleep(max(arguments.interval, 0.05))

    try:
        show(looks(), as_lines=arguments.json, redraw=sys.stdout.isatty() and not arguments.once)
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return 0


def default_folder() -> Path:
    """Where jobs of this user record unless they are told otherwise: a folder for each job."""
    return base_folder(config().fr_dir)


def show(looks: Iterator[tuple[list[Standing], list[str], int]], *, as_lines: bool, redraw: bool) -> None:
    """Draws each look: as a line of JSON, in place when a terminal can redraw, else as a table below the last."""
    if redraw and not as_lines:
        try:
            from rich.live import Live
        except ImportError:
            pass  # rich is optional: the plain table says the same
        else:
            with Live(auto_refresh=False, screen=True) as live:
                for rows, problems, now in looks:
                    live.update(rich_table(rows, problems, now), refresh=True)
            return
    for turn, (rows, problems, now) in enumerate(looks):
        if as_lines:
            print(as_json(rows, now, problems), flush=True)
            continue
        text = "\n".join([table(rows), *notes(rows, problems)])
        print(f"\x1b[H\x1b[2J{text}" if redraw else ("\n" if turn else "") + text, flush=True)


def rich_table(rows: Sequence[Standing], problems: Sequence[str], now_ns: int) -> Stack:
    """The same rows for rich: what did not end well and who is dead stand out."""
    from rich.console import Group as Stack
    from rich.table import Table
    from rich.text import Text

    clock = time.strftime("%H:%M:%S", time.localtime(now_ns / 1e9))
    drawn = Table(title=f"{len(rows)} ranks, {clock}", title_justify="left", box=None, pad_edge=False)
    shown = columns(rows)
    for name in (COLUMNS[column] for column in shown):
        drawn.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=name != "called at")
    for row in rows:
        style = "red" if row.alive is False or row.state in ("failed", "timed out") else ""
        drawn.add_row(*(Text(cells(row)[column]) for column in shown), style=style)
    return Stack(
        drawn, *(Text(note, style="yellow" if note.startswith("not") else "") for note in notes(rows, problems))
    )
