"""What an entry of a ring was asked to do: the part of its slot that the ranks must agree on, decoded.

The layout is that of csrc/recorder/format.h, from ``Slot::kind`` to ``Slot::stream``. Trusts nothing in it.
"""

from __future__ import annotations

import struct

from pycomms.flight_recorder._model import Signature

_FIXED = struct.Struct("<BBBxiiiQ")  # kind, reduction, bytes of sizes, root, peer, tag, bytes


def _name(names: list[str], number: int) -> str:
    return names[number] if number < len(names) else f"#{number}"


def decode(raw: bytes, names: tuple[list[str], ...]) -> tuple[Signature, bool]:
    """And whether its sizes end too early."""
    kinds, dtypes, reductions = names
    kind, reduction, used, root, peer, tag, _ = _FIXED.unpack(raw[: _FIXED.size])
    numbers = _Numbers(raw[_FIXED.size : _FIXED.size + used])
    inputs, outputs = _tensors(numbers, dtypes), _tensors(numbers, dtypes)
    input_splits, output_splits = _splits(numbers), _splits(numbers)
    signature = Signature(
        kind=_name(kinds, kind),
        reduction=_name(reductions, reduction) if reduction else "",
        root=root,
        peer=peer,
        tag=tag,
        input_sizes=tuple(shape for _, shape in inputs),
        output_sizes=tuple(shape for _, shape in outputs),
        input_dtypes=tuple(dtype for dtype, _ in inputs),
        output_dtypes=tuple(dtype for dtype, _ in outputs),
        input_splits=input_splits,
        output_splits=output_splits,
    )
    return signature, numbers.ended


class _Numbers:
    """Seven bits a byte, lowest first. Zeros once there are no more."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self.ended = False

    def next(self) -> int:
        value = shift = 0
        while self._at < len(self._data):
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
        self.ended = True
        return 0


def _tensors(numbers: _Numbers, dtypes: list[str]) -> list[tuple[str, tuple[int, ...]]]:
    found = []
    for _ in range(numbers.next()):
        dtype = _name(dtypes, numbers.next())
        shape = []
        for _ in range(numbers.next()):
            if numbers.ended:
                break
            shape.append(numbers.next())
        if numbers.ended:
            break
        found.append((dtype, tuple(shape)))
    return found


def _splits(numbers: _Numbers) -> tuple[int, ...]:
    splits = []
    for _ in range(numbers.next()):
        split = numbers.next()
        if numbers.ended:
            break
        splits.append(split)
    return tuple(splits)
