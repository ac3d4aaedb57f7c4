"""What a rank says about an error that it caught: sent to the parent, which has the test's opinion of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True)
class Caught:
    kind: str  # the name of the class
    bases: tuple[str, ...]
    text: str
    ranks: tuple[int, ...]
    op: str
    seq: int
    group: str
    called_ns: int
    raised_ns: int

    def seconds(self) -> float:
        return (self.raised_ns - self.called_ns) / 1e9


def catch(call: Callable[[], Any]) -> Caught | None:
    """Calls, and describes the error; None when there was none. Times are of the system-wide monotonic clock."""
    called = time.monotonic_ns()
    try:
        call()
    except (Exception, KeyboardInterrupt) as error:
        return Caught(
            kind=type(error).__name__,
            bases=tuple(base.__name__ for base in type(error).__mro__),
            text=str(error),
            ranks=tuple(getattr(error, "ranks", ())),
            op=getattr(error, "op", None) or "",
            seq=getattr(error, "seq", None) or 0,
            group=getattr(error, "group", None) or "",
            called_ns=called,
            raised_ns=time.monotonic_ns(),
        )
    return None


def needed(call: Callable[[], Any]) -> Caught:
    caught = catch(call)
    if caught is None:
        raise AssertionError("this call had to raise, and returned")
    return caught


def refused(kind: str, words: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Caught:
    """The call raises `kind`, with these words in its text."""
    caught = needed(partial(call, *args, **kwargs))
    assert caught.kind == kind, caught
    assert words in caught.text, caught
    return caught
