"""Words of a command line, as argparse's `type`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any


def list_of(item: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    """Of texts with commas between them, each once. item: raises ValueError."""

    def parse(text: str) -> tuple[Any, ...]:
        try:
            found = tuple(dict.fromkeys(item(part.strip()) for part in text.split(",") if part.strip()))
        except ValueError as err:
            raise argparse.ArgumentTypeError(str(err)) from err
        if not found:
            raise argparse.ArgumentTypeError(f"nothing is named in {text!r}")
        return found

    return parse


def one_of(what: str, names: Sequence[str]) -> Callable[[str], str]:
    """what: such names are, for the error."""

    def parse(text: str) -> str:
        if text not in names:
            raise ValueError(f"no {what} {text!r}; there are {', '.join(names)}")
        return text

    return parse


def number(least: float, most: float, what: str) -> Callable[[str], float]:
    """what: the number is of, for the error."""

    def parse(text: str) -> float:
        try:
            given = float(text)
        except ValueError:
            given = least - 1
        if not least <= given <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {what} from {least:g} to {most:g}")
        return given

    return parse


def whole(least: int, most: int, what: str) -> Callable[[str], int]:
    """Likewise, for `list_of`."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"{text!r} is not a number of {what} from {least} to {most}")
        return int(text)

    return parse
