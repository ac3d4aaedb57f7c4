"""A dump of torch's flight recorder (formats 2.0 to 2.10, as pickle or JSON, from nccl, gloo, its hook) as a Record.

torch numbers and names things by backend; here they become ours. Must not know: files, verdicts.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from pycomms.flight_recorder._model import ENTRY, Entries, Flag, Group, Record, State
from pycomms.flight_recorder._torch_names import DESCRIPTION, Table, writer_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from pycomms.flight_recorder._repeats import Repeats

_REQUIRED = ("process_group", "profiling_name", "state")


class NotADump(Exception):
    """The object is something else."""


def read_json(text: str) -> tuple[Any, bool]:
    """The object in text, and whether it is all there; of one that was cut off, its complete entries.

    Raises NotADump if it is not JSON.
    """
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        pass
    start = re.search(r'"entries"\s*:\s*\[', text)
    if not text.lstrip().startswith("{") or start is None:
        raise NotADump("not JSON, or cut off before its first entry")
    decoder = json.JSONDecoder()
    entries = []
    position = start.end()
    try:
        while True:
            entry, position = decoder.raw_decode(text, _next_value(text, position))
            entries.append(entry)
    except (ValueError, RecursionError):
        pass
    found: dict[str, Any] = {"entries": entries}
    for key in ("version", "comm_lib_version", "pg_config", "pg_status"):
        at = re.search(rf'"{key}"\s*:\s*', text[: start.start()])
        if at is not None:
            found[key], _ = decoder.raw_decode(text, at.end())
    return found, False


def _next_value(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n,":
        position += 1
    return position


def to_record(dump: Any, *, source: str, rank: int, complete: bool, repeats: Repeats | None = None) -> Record:
    """The record in a loaded dump. rank: of the process, where the dump itself does not say. repeats: what was taken
    out of it before it was loaded, and fits.

    Raises NotADump if it is not a dump.
    """
    if not isinstance(dump, dict) or not ({"entries", "pg_config"} & dump.keys()):
        raise NotADump("neither entries nor pg_config")
    given = dump.get("entries") or []
    if not isinstance(given, list):
        raise NotADump("entries is not a list")
    groups = _Groups(dump)
    table = Table()
    try:
        columns = _columns(given)
        rows = _rows(columns, groups, table, repeats)
    except (TypeError, ValueError, KeyError, IndexError, OverflowError, AttributeError) as error:
        raise NotADump(f"entries of an unknown form ({type(error).__name__})") from error
    lost = len(given) - len(columns["state"])
    warnings = [f"{lost} of its entries are none of a flight recorder"] if lost and complete else []
    writers = sorted({writer_of(name) for name in table.prefixes})
    return Record(
        source=source,
        writer=str(dump.get("writer") or "+".join(writers) or "torch"),
        version=str(dump.get("version", "")),
        rank=_integer(dump.get("rank"), rank),
        world_size=_integer(dump.get("world_size"), groups.world_size),
        host=str(dump.get("host", "")),
        pid=_integer(dump.get("pid"), 0),
        job=str(dump.get("job", "")),
        attempt=_integer(dump.get("attempt"), 0),
        started_ns=_integer(dump.get("started_ns"), 0),
        taken_ns=_integer(dump.get("taken_ns"), 0),
        complete=complete,
        dropped=int(rows["id"][0]) if len(rows) else 0,
        stop_reason=str(dump.get("stop_reason", "")),
        library=str(dump.get("comm_lib_version", "")),
        groups=groups.all(),
        signatures=tuple(table.signatures),
        sites=tuple(table.sites),
        errors=("",),
        entries=rows,
        warnings=tuple(warnings + table.warnings()),
    )


class _Groups:
    """The groups of a dump: those it configures, and those its entries name besides."""

    def __init__(self, dump: Mapping[str, Any]) -> None:
        self._config: dict[str, tuple[str, tuple[int, ...]]] = {}
        config = dump.get("pg_config")
        for name, about in config.items() if isinstance(config, dict) else ():
            if isinstance(about, dict):
                self._config[str(name)] = (str(about.get("desc", "")), _ranks(about.get("ranks")))
        self._index: dict[tuple[str, str], int] = {}
        self.world_size = max((len(ranks) for _, ranks in self._config.values()), default=0)

    def indices(self, names: Sequence[Sequence[Any]]) -> list[int]:
        """Of the (name, description) of each entry."""
        known: dict[tuple[Any, ...], int] = {}
        found = []
        for pair in names:
            key = tuple(pair)
            if key not in known:
                known[key] = self.index(str(key[0]), str(key[1]))
            found.append(known[key])
        return found

    def index(self, name: str, description: str) -> int:
        return self._index.setdefault((name, description), len(self._index))

    def _members(self, name: str, description: str) -> tuple[int, ...]:
        if name in self._config:
            return self._config[name][1]
        # gloo configures only the world, under an empty name.
        return self._config.get("", ("", ()))[1] if description == "default_pg" else ()

    def all(self) -> tuple[Group, ...]:
        named = {name for name, _ in self._index}
        for name, (description, _) in self._config.items():
            if name and name not in named:
                self.index(name, description)
        return tuple(
            Group(name=name, description=description, ranks=self._members(name, description))
            for name, description in self._index
        )


def _ranks(written: Any) -> tuple[int, ...]:
    """``"[0, 1]"``, as torch writes it, or a list."""
    if isinstance(written, str):
        return _parsed(written)
    return tuple(rank for rank in written if isinstance(rank, int)) if isinstance(written, (list, tuple)) else ()


@functools.lru_cache(maxsize=256)
def _parsed(written: str) -> tuple[int, ...]:
    """Every rank of a job writes the same lists."""
    try:
        ranks = json.loads(written)
    except (ValueError, RecursionError):
        return ()
    return _ranks(ranks) if isinstance(ranks, list) else ()


def _integer(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else otherwise


_FIELDS: dict[str, Any] = {
    "record_id": 0,
    "process_group": ("", ""),
    "collective_seq_id": None,
    "seq_id": 0,
    "p2p_seq_id": 0,
    "is_p2p": False,
    "time_created_ns": 0,
    "time_discovered_started_ns": 0,
    "time_discovered_completed_ns": 0,
    "timeout_ms": 0,
    "state": "",
    "retired": False,
    "frames": None,
    "signature": None,
    **dict.fromkeys(DESCRIPTION, ()),
}
"""What is read of an entry, and what stands for a field that this version of torch does not write."""


def _columns(given: list[Any]) -> dict[str, Sequence[Any]]:
    """The fields of all elements that are entries, gathered in one pass: they are far apart in memory."""
    first = given[0] if given else None
    if isinstance(first, dict) and all(key in first for key in _REQUIRED) and set(map(type, given)) == {dict}:
        present = [name for name in _FIELDS if name in first]
        missing = {name: [otherwise] * len(given) for name, otherwise in _FIELDS.items() if name not in first}
        try:
            gathered = zip(*map(itemgetter(*present), given), strict=True)
            return {**missing, **dict(zip(present, gathered, strict=True))}
        except KeyError:  # not all entries are alike
            pass
    sound = [entry for entry in given if isinstance(entry, dict) and all(key in entry for key in _REQUIRED)]
    return {name: [entry.get(name, otherwise) for entry in sound] for name, otherwise in _FIELDS.items()}


def _numbers(column: Sequence[Any]) -> npt.NDArray[np.int64]:
    if None in column:
        column = [value or 0 for value in column]
    return np.array(column, np.int64)


_NUMBERS = {
    "record_id": "id",
    "time_created_ns": "issued_ns",
    "time_discovered_started_ns": "started_ns",
    "time_discovered_completed_ns": "ended_ns",
    "collective_seq_id": "",
    "seq_id": "",
    "p2p_seq_id": "",
}
"""Fields that are numbers of one entry alone, and what they become."""
_STATES = {"scheduled": State.ISSUED, "started": State.RUNNING, "completed": State.COMPLETED}


def _rows(columns: Mapping[str, Sequence[Any]], groups: _Groups, table: Table, repeats: Repeats | None) -> Entries:
    def spread(found: npt.ArrayLike, name: str = "", dtype: Any = np.int64) -> npt.NDArray[Any]:
        """From the entries that were loaded to all of them."""
        column = np.asarray(found, dtype)
        if repeats is None:
            return column
        column = column[repeats.like]
        for taken, numbers in repeats.counted.get(name, ()):
            column[taken] = numbers
        return column

    rows = np.zeros(len(columns["state"] if repeats is None else repeats.like), ENTRY)
    if not len(rows):
        return rows
    numbers = {name: spread(_numbers(columns[name]), name) for name in _NUMBERS}
    for name, field in _NUMBERS.items():
        if field:
            rows[field] = numbers[name]
    rows["timeout_ms"] = spread(np.clip(_numbers(columns["timeout_ms"]), 0, 2**32 - 1))
    rows["group"] = spread(groups.indices(columns["process_group"]))
    p2p = spread(columns["is_p2p"], dtype=bool)
    # Before format 2.2 there was one number for both.
    counted = "collective_seq_id" if columns["collective_seq_id"][0] is not None else "seq_id"
    rows["sequence"] = np.where(p2p, numbers["p2p_seq_id"], numbers[counted])
    rows["state"] = spread([state or State.UNKNOWN for state in map(_STATES.get, columns["state"])])
    rows["signature"] = spread(table.signature_indices([columns[name] for name in (*DESCRIPTION, "signature")]))
    rows["site"] = spread(table.site_indices(columns["frames"]))
    p2p |= table.is_p2p(rows["signature"])
    retired = spread(columns["retired"], dtype=bool)
    rows["flags"] = np.where(p2p, int(Flag.P2P), 0) | np.where(retired, int(Flag.RETIRED), 0) | int(Flag.TIMES_FOUND)
    _use_what_the_writer_knows(rows, table)
    _close_coalesced(rows, table)
    return _without_doubles(rows, table)


def _use_what_the_writer_knows(rows: Entries, table: Table) -> None:
    """gloo retires an operation when it has run it; the hook does when it has issued it; neither writes a state."""
    by_prefix: dict[str, Callable[[np.ndarray[Any, Any]], None]] = {"gloo": _gloo, "c10d": _hook}
    prefixes = table.prefix_of(rows["signature"])
    for index, prefix in enumerate(table.prefixes):
        if prefix in by_prefix:
            chosen = np.flatnonzero(prefixes == index)
            part = rows[chosen]
            by_prefix[prefix](part)
            rows[chosen] = part


def _gloo(rows: np.ndarray[Any, Any]) -> None:
    unknown = rows["state"] <= State.ISSUED
    retired = (rows["flags"] & Flag.RETIRED) != 0
    rows["state"] = np.where(unknown & retired, int(State.COMPLETED), rows["state"])
    rows["flags"] |= np.where(unknown, int(Flag.NO_COMPLETION), 0).astype("u2")  # ended, but perhaps with an error


def _hook(rows: np.ndarray[Any, Any]) -> None:
    retired = (rows["flags"] & Flag.RETIRED) != 0
    rows["flags"] |= np.where(retired, int(Flag.NO_COMPLETION), int(Flag.NO_COMPLETION | Flag.NO_POST)).astype("u2")


def _close_coalesced(rows: Entries, table: Table) -> None:
    """Of operations issued together only the last entry, which stands for all, is ever marked as started or ended."""
    closing = np.flatnonzero(table.closes(rows["signature"]))
    after = 0  # the entry behind the last that closed something
    for at in closing:
        first = at
        key = (rows["group"][at], rows["sequence"][at], rows["flags"][at] & Flag.P2P)
        while first > after and key == (
            rows["group"][first - 1],
            rows["sequence"][first - 1],
            rows["flags"][first - 1] & Flag.P2P,
        ):
            first -= 1
        if first < at:
            for field in ("state", "started_ns", "ended_ns"):
                rows[field][first:at] = rows[field][at]
            rows["flags"][first : at + 1] |= int(Flag.COALESCED)
        after = at + 1


def _without_doubles(rows: Entries, table: Table) -> Entries:
    """The hook on a backend that records too writes each operation twice, with numbers of its own: ours is enough."""
    if "c10d" not in table.prefixes or len(table.prefixes) == 1:
        return rows
    by_hook = table.prefix_of(rows["signature"]) == table.prefixes.index("c10d")
    native = np.unique(rows["group"][~by_hook])
    # gloo itself does not record messages.
    doubled = by_hook & np.isin(rows["group"], native) & ((rows["flags"] & Flag.P2P) == 0)
    kept: Entries = rows[~doubled]
    return kept
