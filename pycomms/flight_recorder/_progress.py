"""A bar for work that takes long, on stderr, if somebody is looking."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_WORTH_IT_S = 1.0
"""Work that is over sooner shows nothing, and does not wait for rich to be imported."""


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yields a function that is told how many of how many are done; None when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar(what)
    try:
        yield bar.update
    finally:
        bar.close()


class _Bar:
    def __init__(self, what: str) -> None:
        self._what = what
        self._begin = self._shown = time.monotonic()
        self._wrote = False

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._begin < _WORTH_IT_S or now - self._shown < 0.1:
            return
        self._shown = now
        self._wrote = True
        filled = 30 * done // max(total, 1)
        sys.stderr.write(f"\r{self._what} [{'#' * filled}{'.' * (30 - filled)}] {done} of {total}")
        sys.stderr.flush()

    def close(self) -> None:
        if self._wrote:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
