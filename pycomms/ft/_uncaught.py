"""Whoever ends by an exception that nobody catches tells the others, before Python's end, which may take a second."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pycomms.ft.session import Session

_Hook = Callable[[type[BaseException], BaseException, "TracebackType | None"], object]

_sessions: WeakSet[Session] = WeakSet()
_before: _Hook | None = None


def watch(session: Session) -> None:
    """From now on, and once for all: the hook that was there before is called behind this one."""
    global _before
    _sessions.add(session)
    if _before is None:
        _before, sys.excepthook = sys.excepthook, _tell


def _tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    for session in list(_sessions):
        try:
            session._give_up(error)
        except Exception as own:  # the user's exception is what has to be seen
            print(f"pycomms.ft: nobody could be told: {own}", file=sys.stderr)
    assert _before is not None
    _before(kind, error, trace)
