"""What the command lines of all subcommands share: how they refuse, how they end, and words as argparse's `type`.

Imports nothing of pycomms.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

USAGE = 4
"""Exit code for a command line that makes no sense."""
PIPE_CLOSED = 141
"""As the shell says of a process that SIGPIPE ended."""


class Parser(argparse.ArgumentParser):
    """Ends with USAGE where argparse would with 2."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def leave_closed_pipe() -> int:
    """After a BrokenPipeError: whoever read the output has seen enough. Returns the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


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
