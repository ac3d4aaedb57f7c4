"""Entries of a torch pickle whose parts have the same lengths, cut by one call, in a tenth of the time that an
expression takes. Must not know: where entries begin, what the fields say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = "list[tuple[npt.NDArray[np.intp], npt.NDArray[Any]]]"

_ARGUMENTS = {b"K": "<u1", b"M": "<u2", b"J": "<i4", b"\x8a": "<i8"}
"""Of the opcodes of numbers. The others have a length before the number, or none: ``None`` has no number."""


class Layout:
    """cut: what repeats of the entry at a place of the data, all but its numbers. kinds: which entry of the rest has
    it. then: the layout that came next, the last time. taken, places: of the entries that are not in the rest, in the
    whole and in the data.
    """

    def __init__(self, named: Iterable[tuple[str, bool]], parts: Sequence[bytes], *, before: int, after: int) -> None:
        """parts: of one such entry, in turns what repeats and a number with its opcode, and what repeats at last.

        named: the field of each number, and whether the number is wanted. before, after: bytes around the parts.
        """
        self._numbers: list[tuple[str, int, np.dtype[Any]]] = []  # field, where in an entry, form
        form = "<"
        at, pending = before, before
        for (name, wanted), text, number in zip(named, parts[::2], parts[1::2], strict=False):
            code = np.dtype(_ARGUMENTS[number[:1]]) if wanted and number[:1] in _ARGUMENTS else None
            width = code.itemsize if code is not None else len(number) - 1
            at += len(text) + len(number)
            if code is not None:
                self._numbers.append((name, at - width, code))
            form += f"{pending + len(text) + len(number) - width}s{width}x"
            pending = 0
        whole = struct.Struct(f"{form}{pending + len(parts[-1]) + after}s")
        self.size = whole.size
        self.cut = whole.unpack_from
        self.kinds: dict[tuple[bytes, ...], int] = {}
        self.then: Layout | None = None
        self.taken: list[int] = []
        self.places: list[int] = []

    def numbers(self, data: npt.NDArray[np.uint8]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """By field, of the entries that are not in the rest."""
        places = np.array(self.places, np.intp)[:, None]
        for name, at, code in self._numbers:
            yield name, data[places + (at + np.arange(code.itemsize))].view(code)[:, 0]


def shape_of(parts: Sequence[bytes]) -> tuple[bytes | int, ...]:
    """Entries of the same shape have one layout: the lengths of what repeats, and the opcodes of the numbers."""
    return (*map(len, parts[::2]), *(number[:1] for number in parts[1::2]))


def gather(layouts: Iterable[Layout], data: bytes) -> dict[str, Numbers]:
    """By field: which entries of the whole, and their numbers."""
    found: dict[str, Numbers] = {}
    raw = np.frombuffer(data, np.uint8)
    for layout in layouts:
        if layout.taken:
            taken = np.array(layout.taken, np.intp)
            for name, numbers in layout.numbers(raw):
                found.setdefault(name, []).append((taken, numbers))
    return found
