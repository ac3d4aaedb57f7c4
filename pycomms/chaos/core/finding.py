"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    HELD = "held"
    VIOLATED = "violated"
    UNCHECKED = "not checked"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """what: one sentence. details: at most a few lines, what exactly was seen."""

    invariant: str
    state: State
    what: str
    details: tuple[str, ...] = ()


_MOST = 8
_MOST_DETAILS = 40


def held(invariant: str, what: str, *details: str) -> Finding:
    return Finding(invariant=invariant, state=State.HELD, what=what, details=details)


def unchecked(invariant: str, why: str) -> Finding:
    return Finding(invariant=invariant, state=State.UNCHECKED, what=why)


def judged(invariant: str, what_holds: str, problems: list[str], details: tuple[str, ...] = ()) -> Finding:
    """Violated if there are problems: the first of them says it."""
    if len(details) > _MOST_DETAILS:
        details = (*details[:_MOST_DETAILS], f"and {len(details) - _MOST_DETAILS} more")
    if not problems:
        return Finding(invariant=invariant, state=State.HELD, what=what_holds, details=details)
    more = problems[1 : 1 + _MOST]
    if len(problems) > 1 + _MOST:
        more.append(f"and {len(problems) - 1 - _MOST} more")
    return Finding(invariant=invariant, state=State.VIOLATED, what=problems[0], details=(*more, *details))
