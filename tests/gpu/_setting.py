"""What every area gets, and the time that it has. Used by the parent only."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tests.multirank._harness import Ranks

from ._report import AreaReport


class Deadline:
    """A moment on the monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        return max(0.0, self._at - time.monotonic())

    def sooner(self, seconds: float) -> Deadline:
        """The one that comes first: this one, or one in so many seconds."""
        return Deadline(min(seconds, self.left()))


@dataclass(frozen=True, kw_only=True)
class Setting:
    ranks: Ranks
    worlds: tuple[int, ...]  # numbers of ranks to run with, the largest last
    why_worlds: str  # why no more
    emulated: bool
    quick: bool  # a part of the cases, for the test of this program


Area: TypeAlias = Callable[[Setting, AreaReport, Deadline], None]
