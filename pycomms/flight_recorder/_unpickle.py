"""Reads pickles that others wrote, without running anything, and recovers what is complete in one that was cut off.

A pickle is a program that may call whatever its reader lets it name; here it may name nothing, so only numbers,
strings and containers can come out. Must not know: what the contents mean.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import pickletools
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from pycomms.flight_recorder import _salvage


class RefusedPickle(Exception):
    """The pickle asks for a class or function: it is not a dump of a flight recorder, and may be an attack."""


def loads(data: bytes) -> tuple[Any, bool]:
    """The object in data, and whether it is all there: False if it was cut off, then its complete parts are there.

    Raises RefusedPickle if the pickle names anything, and ValueError if nothing can be read at all.
    """
    try:
        with _memory_bound(len(data)):
            # The C reader looks ahead only in a file that has peek(); else it asks for every few bytes.
            return _Plain(io.BufferedReader(io.BytesIO(data), _AHEAD)).load(), True
    except RefusedPickle:
        raise
    except Exception:  # the C reader answers damage with whatever it stumbles over: KeyError, EOFError, OverflowError …
        pass
    machine = _Machine(data)
    machine.run()
    found = _salvage.fold(machine.frames)
    if found is None:
        raise ValueError("not a pickle, or nothing of it is complete")
    return found, False


def _refuse(name: str) -> NoReturn:
    raise RefusedPickle(f"the pickle asks for {name}: dumps of a flight recorder hold numbers and strings only")


class _Plain(pickle.Unpickler):
    """The C reader, with nothing to find."""

    def find_class(self, module: str, name: str) -> NoReturn:
        _refuse(f"{module[:80]}.{name[:80]}")

    def persistent_load(self, pid: object) -> NoReturn:
        _refuse("a persistent object")


_AHEAD = 1 << 20
_ROOM = 1 << 29
_ROOM_PER_BYTE = 64


@contextlib.contextmanager
def _memory_bound(size: int) -> Iterator[None]:
    """Lets the process grow by what an honest file of this size needs, and no further.

    The C reader keeps its memo in an array as long as the largest index in the file, which a file of 20 bytes can set
    to 2**32: that ends in MemoryError here instead of the machine's memory.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    ceiling = pages * resource.getpagesize() + _ROOM + _ROOM_PER_BYTE * size
    if soft != resource.RLIM_INFINITY and soft <= ceiling:
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _Machine:
    """The same in Python, a tenth as fast: it keeps its stack when the input ends."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._memo: dict[int, Any] = {}
        self.frames: list[list[Any]] = [[]]
        """What lies on the stack, cut at each mark that is still open."""

    def run(self) -> None:
        """Until the end of the pickle, or the first byte that makes no sense. Raises RefusedPickle."""
        try:
            for opcode, argument, _ in pickletools.genops(io.BytesIO(self._data)):
                if opcode.name == "STOP":
                    return
                self._step(opcode.name, argument)
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, UnicodeError, OverflowError):
            return

    def _to_mark(self) -> list[Any]:
        if len(self.frames) == 1:
            raise ValueError("no mark is open")
        return self.frames.pop()

    def _step(self, name: str, argument: Any) -> None:
        stack = self.frames[-1]
        if name in _FORBIDDEN:
            _refuse(f"{str(argument)[:160]!r}" if name in ("GLOBAL", "INST") else f"the opcode {name}")
        elif name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self._memo[int(argument)])
        elif name in ("BINPUT", "LONG_BINPUT", "PUT"):
            self._memo[int(argument)] = stack[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = stack[-1]
        elif name == "MARK":
            self.frames.append([])
        elif name in _TUPLES:
            count = _TUPLES[name]
            items = tuple(stack[-count:])
            del stack[-count:]
            stack.append(items)
        elif name in _ONE_ITEM:
            items_on_top = [stack.pop() for _ in range(_ONE_ITEM[name])][::-1]
            _salvage.fill(stack[-1], items_on_top)
        elif name in _TO_MARK:
            items_above = self._to_mark()
            below = self.frames[-1]
            made = _TO_MARK[name]
            if made is None:
                _salvage.fill(below[-1], items_above)
            else:
                below.append(made(items_above))
        elif name == "POP":
            stack.pop()
        elif name == "POP_MARK":
            self._to_mark()
        elif name == "DUP":
            stack.append(stack[-1])
        elif name not in ("PROTO", "FRAME"):
            raise ValueError(name)


_FORBIDDEN = frozenset(
    [
        "GLOBAL",
        "STACK_GLOBAL",
        "INST",
        "OBJ",
        "NEWOBJ",
        "NEWOBJ_EX",
        "REDUCE",
        "BUILD",
        "EXT1",
        "EXT2",
        "EXT4",
        "PERSID",
        "BINPERSID",
    ]
)
_LITERALS = frozenset(
    [
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "FLOAT",
        "BINFLOAT",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
    ]
)
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, type] = {"EMPTY_LIST": list, "EMPTY_DICT": dict, "EMPTY_TUPLE": tuple, "EMPTY_SET": set}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_ONE_ITEM = {"APPEND": 1, "SETITEM": 2}


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=False))


_TO_MARK: dict[str, Any] = {
    "APPENDS": None,
    "SETITEMS": None,
    "ADDITEMS": None,
    "TUPLE": tuple,
    "LIST": list,
    "DICT": _pairs,
    "FROZENSET": frozenset,
}
