"""Files to records: whatever wrote them, wherever they lie, told apart by what is in them.

Nothing about a file is fatal: what cannot be read becomes a problem in the result. Must not know: verdicts.
"""

from __future__ import annotations

import dataclasses
import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from pycomms.flight_recorder import _bundle
from pycomms.flight_recorder._model import UNKNOWN_RANK, Group, Record, Signature, Site
from pycomms.flight_recorder._repeats import Repeats, take_out
from pycomms.flight_recorder._torch_dumps import NotADump, read_json, to_record
from pycomms.flight_recorder._unpickle import RefusedPickle, loads

_RING = b"PYCOMMSF"
_LARGEST = 4 << 30
_COMPANIONS = (".stacks",)
"""What our recorder puts beside its dumps, for people to read."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """What the files hold. refused: files that wanted to run something. unreadable, strays: path and reason."""

    records: tuple[Record, ...] = ()
    refused: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    strays: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        damaged = (
            f"{len(one.entries)} entries recovered of {one.source}, which ends in the middle"
            for one in self.records
            if not one.complete
        )
        own = (f"{Path(one.source).name}: {text}" for one in self.records for text in one.warnings)
        return tuple(sorted({*damaged, *own, *self.unreadable, *self.strays, *self.refused}))


def find_files(paths: Iterable[str]) -> tuple[list[Path], list[str]]:
    """The files at paths, which may be folders (searched to the bottom) or patterns; and the paths with nothing."""
    found: dict[Path, None] = {}
    nothing = []
    for path in paths:
        places = [Path(path)] if Path(path).exists() else _matching(path)
        if not places:
            nothing.append(path)
        for place in places:
            if place.is_dir():
                for folder, _, names in os.walk(place):
                    found.update((Path(folder, name), None) for name in sorted(names) if not name.endswith(_COMPANIONS))
            else:
                found[place] = None
    return list(found), nothing


def _matching(pattern: str) -> list[Path]:
    anchor = Path(Path(pattern).anchor)
    try:
        return sorted(anchor.glob(str(Path(pattern).relative_to(anchor))))
    except ValueError:  # not a pattern
        return []


def load(paths: Sequence[str | Path], progress: Progress | None = None) -> Loaded:
    """Reads the files one after the other. progress is told how many of how many are done."""
    records: list[Record] = []
    refused: list[str] = []
    unreadable: list[str] = []
    strays: list[str] = []
    shared = _Shared()
    with _no_collection():
        for done, path in enumerate(paths):
            if progress is not None:
                progress(done, len(paths))
            try:
                if Path(path).is_file() and _bundle.is_bundle(Path(path)):
                    # What comes before damage is kept.
                    records.extend(map(shared.with_shared_parts, _bundle.read(Path(path))))
                else:
                    records.append(shared.with_shared_parts(read(Path(path))))
            except RefusedPickle as error:
                refused.append(f"refused {path}: {error}")
            except NotADump as error:
                strays.append(f"skipped {path}: {error}")
            except (OSError, ValueError, MemoryError, RecursionError) as error:
                unreadable.append(f"cannot read {path}: {error or type(error).__name__}")
    return Loaded(records=tuple(records), refused=tuple(refused), unreadable=tuple(unreadable), strays=tuple(strays))


def read(path: Path) -> Record:
    """The record in one file. Raises RefusedPickle, NotADump, or OSError and ValueError for damage."""
    if not path.is_file():
        raise NotADump("not a regular file")
    size = path.stat().st_size
    if size > _LARGEST:
        raise NotADump(f"{size} bytes is larger than any dump")
    with path.open("rb") as file:
        first = file.read(len(_RING))
        if first == _RING:
            ring: Record = import_module("pycomms.flight_recorder._ring").read(path)
            return ring
        data = first + file.read()
    if not data:
        raise ValueError("empty: its writer was killed, or the disk was full")
    rank = rank_in_name(path.name)
    repeats = None
    if data.lstrip()[:1] == b"{":
        found, complete = read_json(data.decode("utf-8", "replace"))
    elif data[:1] == b"\x80" or data[:1] in b"(}":
        try:
            found, complete, repeats = _loads(data)
        except ValueError as error:
            raise NotADump(str(error)) from error
        if not complete and not isinstance(found, dict):
            raise NotADump("neither a dump nor the beginning of one")
    else:
        raise NotADump("neither a ring nor a dump")
    record = to_record(found, source=str(path), rank=rank, complete=complete, repeats=repeats)
    return _with_time_of_file(record, path)


def _loads(data: bytes) -> tuple[Any, bool, Repeats | None]:
    """The object in a pickle, whether it is all there, and what was taken out of it before it was read."""
    repeats = take_out(data)
    if repeats is not None:
        found, complete = loads(repeats.rest)
        if complete and repeats.fit(found):
            return found, True, repeats
    return *loads(data), None


_RANK = re.compile(r"rank[_\-.]?(\d{1,7})", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(\d{1,7})(?:\.[a-z]+)*$", re.IGNORECASE)


def rank_in_name(name: str) -> int:
    """3, of nccl_trace_rank_3, host07_rank3.json, comm_lib_trace_3; UNKNOWN_RANK if there is no number."""
    marked = _RANK.findall(name)
    if marked:
        return int(marked[-1])
    last = _LAST_NUMBER.search(name)
    return int(last.group(1)) if last else UNKNOWN_RANK


_PLAUSIBLE_NS = 24 * 3600 * 10**9


def _with_time_of_file(record: Record, path: Path) -> Record:
    """torch does not write when a dump was taken; the file's own time says so, unless it was copied long after."""
    if record.taken_ns or not len(record.entries):
        return record
    entries = record.entries
    newest = int(max(entries[name].max() for name in ("issued_ns", "started_ns", "ended_ns")))
    written = path.stat().st_mtime_ns
    if not newest or not newest <= written <= newest + _PLAUSIBLE_NS:
        return record
    return dataclasses.replace(record, taken_ns=written)


class _Shared:
    """Signatures and sites that many ranks have, kept once."""

    def __init__(self) -> None:
        self._signatures: dict[Signature, Signature] = {}
        self._sites: dict[Site, Site] = {}
        self._tables: dict[tuple[Signature, ...], tuple[Signature, ...]] = {}
        self._site_tables: dict[tuple[Site, ...], tuple[Site, ...]] = {}
        self._groups: dict[tuple[Group, ...], tuple[Group, ...]] = {}

    def with_shared_parts(self, record: Record) -> Record:
        signatures = tuple(self._signatures.setdefault(one, one) for one in record.signatures)
        sites = tuple(self._sites.setdefault(one, one) for one in record.sites)
        return dataclasses.replace(
            record,
            signatures=self._tables.setdefault(signatures, signatures),
            sites=self._site_tables.setdefault(sites, sites),
            groups=self._groups.setdefault(record.groups, record.groups),
        )


@contextmanager
def _no_collection() -> Iterator[None]:
    """Dumps are millions of small objects without a cycle: looking for cycles would take longer than reading."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
