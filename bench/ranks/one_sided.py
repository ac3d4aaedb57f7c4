"""Operations on windows, for every Python contestant: rank 0 is the origin, rank 1 the target, and others look on.

The target is where the library under test wants it to be meanwhile (`Window.rest`). Standard library only. Must not
know which library is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pycomms.bench.plan import Op
from pycomms.bench.ranks.operations import OPERATIONS, Buffer, Call, Operation, Table

ORIGIN, TARGET = 0, 1
WORD = 8  # bytes: all is int64
VALUE = 5


class Window(Protocol):
    """A window of the library under test, of int64, as large on every rank. `put` to `copy` return calls that can be
    repeated; what they do has ended at the target when they return."""

    local: Buffer

    def buffer(self, count: int) -> Buffer: ...
    def put(self, data: Buffer) -> Call: ...
    def get(self, data: Buffer) -> Call: ...
    def fetch_add(self, value: int) -> Call: ...
    def compare_swap(self, expected: int, desired: int) -> Call: ...
    def old(self, returned: Any) -> int: ...  # what was there before the last update; `returned`: of its call
    def copy(self, data: Buffer) -> Call: ...  # by the copying of tensors, into the mapped memory
    def rest(self) -> Call: ...  # collective; where the target stays while others work, and all meet afterwards
    def meet(self) -> None: ...  # collective; what was done is seen by all
    def close(self) -> None: ...  # collective


class WindowMaker(Protocol):
    """What is asked of a rank here."""

    rank: int

    def window(self, nbytes: int) -> Any: ...  # a Window; collective


@dataclass(kw_only=True)
class _OneSided(Operation):
    """Only the origin calls, and both can be asked whether it came out right."""

    window: Window
    origin: bool
    right_at_origin: Callable[[Any], bool] = lambda _: True  # of what the call has returned
    right_at_target: Callable[[], bool] = lambda: True

    def verify(self) -> bool:
        self.fill()
        self.window.meet()
        returned = self.call() if self.origin else None
        self.window.meet()
        right = self.right_at_origin(returned) if self.origin else self.right_at_target()
        self.window.meet()
        return right


def _make(end: WindowMaker, nbytes: int, make: Callable[[Window, Buffer], dict[str, Any]]) -> Operation:
    window = end.window(nbytes)
    data = window.buffer(nbytes // WORD)
    origin = end.rank == ORIGIN

    def fill() -> None:
        data[:] = 1 + VALUE
        window.local[:] = VALUE

    common = {
        "window": window,
        "origin": origin,
        "is_passive": not origin,
        "fill": fill,
        "after": window.rest(),
        "close": window.close,
    }
    return _OneSided(**common, **make(window, data))


def _all(buffer: Buffer, value: int) -> bool:
    return bool((buffer == value).all())


def _put(end: WindowMaker, size: int) -> Operation:
    def make(window: Window, data: Buffer) -> dict[str, Any]:
        return {"call": window.put(data), "right_at_target": lambda: _all(window.local, 1 + VALUE)}

    return _make(end, _whole(size), make)


def _get(end: WindowMaker, size: int) -> Operation:
    def make(window: Window, data: Buffer) -> dict[str, Any]:
        return {"call": window.get(data), "right_at_origin": lambda _: _all(data, VALUE)}

    return _make(end, _whole(size), make)


def _fetch_add(end: WindowMaker, _: int) -> Operation:
    def make(window: Window, _: Buffer) -> dict[str, Any]:
        return {
            "call": window.fetch_add(1),
            "right_at_origin": lambda returned: window.old(returned) == VALUE,
            "right_at_target": lambda: _all(window.local, 1 + VALUE),
        }

    return _make(end, WORD, make)


def _compare_swap(end: WindowMaker, _: int) -> Operation:
    """Replaces a value by itself, so that every one of many calls finds what it expects."""

    def make(window: Window, _: Buffer) -> dict[str, Any]:
        return {
            "call": window.compare_swap(VALUE, VALUE),
            "right_at_origin": lambda returned: window.old(returned) == VALUE,
            "right_at_target": lambda: _all(window.local, VALUE),
        }

    return _make(end, WORD, make)


def _copy(end: WindowMaker, size: int) -> Operation:
    def make(window: Window, data: Buffer) -> dict[str, Any]:
        plain = window.buffer(len(data))
        return {
            "call": window.copy(data),
            "beside": {"plain copy_": lambda: plain.copy_(data)},
            "right_at_target": lambda: _all(window.local, 1 + VALUE),
        }

    return _make(end, _whole(size), make)


def _whole(size: int) -> int:
    return max(1, size // WORD) * WORD


ONE_SIDED_OPERATIONS: dict[Op, Callable[[WindowMaker, int], Operation]] = {
    Op.RMA_PUT: _put,
    Op.RMA_GET: _get,
    Op.RMA_FETCH_ADD: _fetch_add,
    Op.RMA_COMPARE_SWAP: _compare_swap,
    Op.RMA_COPY: _copy,
}

TABLE: Table = {**OPERATIONS, **ONE_SIDED_OPERATIONS}
"""Of an endpoint that has `window` too."""
