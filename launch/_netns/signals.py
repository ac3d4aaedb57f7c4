"""What a signal may do while a cluster exists: end the program through the cluster's clean-up, not in the middle of it.

Main thread only; in another thread both do nothing, for signals do not arrive there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeAlias

Handler: TypeAlias = "Callable[[int, FrameType | None], Any] | int | None"
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def exit_on_sigterm() -> Callable[[], None]:
    """SIGTERM and SIGHUP raise SystemExit, unless the program handles them itself. Returns what undoes it."""
    before: dict[signal.Signals, Handler] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, _exit)

    def undo() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    return undo


@contextmanager
def deferred() -> Iterator[None]:
    """A signal that comes inside the block takes effect after it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    # A handler that was not set from Python reads as None and could not be put back.
    ours = [number for number in ENDING if signal.getsignal(number) is not None]
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in ours}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
