"""Takes out of a torch pickle the entries that repeat an earlier one in all but its numbers, and keeps their numbers.

A dump is thousands of entries of a few hundred bytes, and most differ from an earlier one only in when and in which
place of the sequence. To build a dictionary of twenty fields for each takes longer than all that is done with them;
one regular expression cuts such an entry into what repeats and what counts. Everything before an entry is followed
opcode by opcode from the beginning of the file, so that what is left means what it meant. Must not know: what the
fields say, files.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pycomms.flight_recorder._layouts import Layout, gather, shape_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from pycomms.flight_recorder._layouts import Numbers

_NEEDED = frozenset({"record_id", "time_created_ns", "process_group", "profiling_name", "state"})
_MAY_BE_NONE = frozenset({"time_discovered_started_ns", "time_discovered_completed_ns"})
_COUNTED = frozenset({"record_id", "collective_seq_id", "seq_id", "p2p_seq_id", "time_created_ns"}) | _MAY_BE_NONE
"""The fields whose numbers are kept of an entry that is taken out."""
_UNREAD = frozenset({"op_id", "duration_ms"})
"""Fields that differ from entry to entry, and that nobody reads."""
_FEW = 256
"""Entries unlike all before, after which a dump must have shown that it repeats itself."""


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """rest: a pickle without the entries that repeat another; there are `kept` others.

    like: for each entry of the whole, which of those in `rest` it is like. counted: the numbers of those that are not
    in `rest`, by field. fields: of the entries that others are like, in order; first: where these are in `rest`.
    """

    rest: bytes
    kept: int
    like: npt.NDArray[np.intp]
    counted: dict[str, Numbers]
    fields: tuple[str, ...]
    first: tuple[int, ...]

    def fit(self, dump: Any) -> bool:
        """Whether the object that `rest` became is what it was taken for."""
        entries = dump.get("entries") if isinstance(dump, dict) else None
        if not isinstance(entries, list) or len(entries) != self.kept or set(map(type, entries)) != {dict}:
            return False
        return all(tuple(entries[place]) == self.fields for place in self.first)


def take_out(data: bytes) -> Repeats | None:
    """None if the pickle is not as torch writes it, or too few of its entries are alike to be worth it."""
    return _Reader(data).read() if data.startswith(b"\x80\x02}(") else None


_PLAIN = rb"[Kh].|[N\x88\x89]|\x8a\x08.{8}|M..|[Jj].{4}|G.{8}"
_LIST = rb"\](?:\((?:%b)*e|(?:%b)a)?"
_INNER_LIST = _LIST % (_PLAIN, _PLAIN)
_VALUE = rb"(?:%b|%b)" % (_PLAIN, _LIST % ((_PLAIN + b"|" + _INNER_LIST,) * 2))
_PAIR_OR_VALUE = rb"(?:(?:%b){2}\x86|%b)" % (_PLAIN, _VALUE)
_KEY = rb"(?:h.|j.{4})"
_COUNT = rb"(K.|M..|J.{4}|\x8a\x08.{8}%b)"
_KEY_AND_VALUE = re.compile(rb"(%b)%b" % (_KEY, _PAIR_OR_VALUE), re.DOTALL)
# What lies before the next string, mark, or end of what a mark began. A string's length is more than an expression can
# follow.
_TOKEN = re.compile(rb"(?:[])}as\x85-\x87]|%b|q.|r.{4})*(?:X(.{4})|([(])|([etu]))" % _PLAIN, re.DOTALL)
_PUT = re.compile(rb"q(.)|r(.{4})", re.DOTALL)


@functools.lru_cache(maxsize=64)
def _pattern(fields: tuple[str, ...]) -> re.Pattern[bytes]:
    """Of an entry with these fields: its groups are, in turns, what repeats and a number, and what repeats at last."""
    parts = [rb"\}\(("]
    for name in fields:
        parts.append(_KEY)
        if name in _COUNTED:
            parts.append(b")" + _COUNT % (b"|N" if name in _MAY_BE_NONE else b"") + b"(")
        elif name in _UNREAD:
            parts.append(b")" + _COUNT % rb"|N|G.{8}" + b"(")
        else:
            parts.append(_PAIR_OR_VALUE if name == "process_group" else _VALUE)
    return re.compile(b"".join(parts) + b")u", re.DOTALL)


class _NotAsTorchWritesIt(Exception):
    pass


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._names: dict[bytes, str] = {}  # what each opcode that fetches a string fetches
        self._fields: tuple[str, ...] = ()
        self._numbered: tuple[tuple[str, bool], ...] = ()  # and whether the number is wanted
        self._rest: list[bytes] = []
        self._copied = 0  # up to where `rest` has it
        self._kept = 0
        self._known: dict[tuple[bytes, ...], int] = {}
        self._layouts: dict[tuple[bytes | int, ...], Layout] = {}
        self._like: list[int] = []

    def read(self) -> Repeats | None:
        try:
            self._find_entries()
            while self._data[self._at] == b"}"[0]:
                if self._kept > _FEW + len(self._like) // 2:
                    return None
                self._follow_entry()
                self._follow_portion()
                self._take_repeated()
        except (_NotAsTorchWritesIt, IndexError):
            return None
        finally:
            for layout in self._layouts.values():
                layout.then = None  # they lead to one another in circles, which nobody collects while dumps are read
        if self._kept == len(self._like):
            return None
        self._rest.append(self._data[self._copied :])
        return Repeats(
            rest=b"".join(self._rest),
            kept=self._kept,
            like=np.array(self._like, np.intp),
            counted=gather(self._layouts.values(), self._data),
            fields=self._fields,
            first=tuple(self._known.values()),
        )

    def _find_entries(self) -> None:
        """To the first element of the list that the outermost dictionary has under this name."""
        self._at = len(b"\x80\x02}")
        depth = 0
        while True:
            text, change = self._follow_token()
            depth += change
            if depth == 1 and text == b"entries":
                if self._data[self._at : self._at + 2] != b"](":
                    raise _NotAsTorchWritesIt
                self._at += 2
                return

    def _follow_entry(self) -> None:
        depth = 0
        while True:
            _, change = self._follow_token()
            depth += change
            if not depth and change:
                break
        put = _PUT.match(self._data, self._at)
        self._at = put.end() if put else self._at
        self._like.append(self._kept)
        self._kept += 1

    def _follow_portion(self) -> None:
        """Long lists are written in portions."""
        if self._data[self._at : self._at + 2] == b"e(":
            self._at += 2

    def _follow_token(self) -> tuple[bytes, int]:
        """Goes behind the next string or mark. The string, and by how much the number of open marks has changed."""
        token = _TOKEN.match(self._data, self._at)
        if token is None:
            raise _NotAsTorchWritesIt
        self._at = token.end()
        if token[1] is None:
            return b"", 1 if token[2] else -1
        size = int.from_bytes(token[1], "little")
        text = self._data[self._at : self._at + size]
        self._at += size
        put = _PUT.match(self._data, self._at)
        if put is not None:
            self._at = put.end()
            self._names[b"h" + put[1] if put[1] else b"j" + put[2]] = text.decode("utf-8", "replace")
        return text, 0

    def _take_repeated(self) -> None:
        """Takes out all entries from here on that are like an earlier one, and keeps the first of each kind."""
        if not self._fields and not self._learn_fields():
            return
        match = _pattern(self._fields).match
        last: Layout | None = None
        while True:
            if last is not None and last.then is not None:
                last = self._take_expected(last.then) or last
            self._follow_portion()
            found = match(self._data, self._at)
            if found is None:
                return
            layout = self._take_found(found)
            if last is not None:
                last.then = layout
            last = layout

    def _take_expected(self, layout: Layout) -> Layout | None:
        """Takes out what follows for as long as it is laid out as expected, and of a known kind. The last layout."""
        data, like = self._data, self._like
        last = None
        begin = at = self._at
        expected: Layout | None = layout
        while expected is not None and at + expected.size <= len(data):
            place = expected.kinds.get(expected.cut(data, at))
            if place is None:
                break
            expected.taken.append(len(like))
            expected.places.append(at)
            like.append(place)
            at += expected.size
            last, expected = expected, expected.then
        self._leave_out(begin, at)
        return last

    def _take_found(self, found: re.Match[bytes]) -> Layout:
        """Takes out the entry that the expression found, unless it is the first of its kind."""
        parts = found.groups()
        shape = shape_of(parts)
        layout = self._layouts.get(shape)
        if layout is None:
            layout = Layout(self._numbered, parts, before=len(b"}("), after=len(b"u"))
            self._layouts[shape] = layout
        layout.kinds[layout.cut(self._data, self._at)] = self._known.get(parts[::2], self._kept)
        place = self._known.get(parts[::2])
        if place is None:
            self._known[parts[::2]] = place = self._kept
            self._kept += 1
            self._at = found.end()
        else:
            layout.taken.append(len(self._like))
            layout.places.append(self._at)
            self._leave_out(self._at, found.end())
        self._like.append(place)
        return layout

    def _leave_out(self, begin: int, end: int) -> None:
        if end > begin:
            self._rest.append(self._data[self._copied : begin])
            self._copied = self._at = end

    def _learn_fields(self) -> bool:
        """Of the entry that begins here, if it is like others: it fetches the names of its fields."""
        fields = []
        at = self._at + len(b"}(")
        while (found := _KEY_AND_VALUE.match(self._data, at)) is not None and found[1] in self._names:
            fields.append(self._names[found[1]])
            at = found.end()
        if not _NEEDED.issubset(fields):
            return False
        self._fields = tuple(fields)
        self._numbered = tuple((name, name in _COUNTED) for name in fields if name in _COUNTED | _UNREAD)
        return True
