"""Keeps all cores busy while a test runs, to see what it promises on a loaded machine."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ._harness import Ranks


def check_burn(rank: int, world: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass


@contextlib.contextmanager
def all_cores_busy(ranks: Ranks, at_most: float) -> Iterator[None]:
    with ranks.start(check_burn, at_most, world=os.cpu_count() or 1, init=False, fresh=True, timeout=at_most + 10.0):
        yield
