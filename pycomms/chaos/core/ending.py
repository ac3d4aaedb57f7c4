"""In one word, what has become of a job: for tables that set targets side by side. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from pycomms.chaos.core.finding import Finding, State
from pycomms.chaos.core.log import Log


class Ending(Enum):
    GOES_ON = "goes on"
    BEGINS_ANEW = "begins anew"
    FAILS = "fails"
    FAILS_SILENTLY = "fails, and names nobody"
    HANGS = "hangs"
    WRONG = "wrong numbers"
    UNKNOWN = "not known"
    NOT_APPLICABLE = "not applicable"


_NUMBERS = ("values", "agreement", "samples")


def ending_of(log: Log, findings: Sequence[Finding]) -> Ending:
    """What nobody could overlook comes behind what somebody might: wrong numbers first."""
    states = {one.invariant: one.state for one in findings}
    if log.end is None or log.end["how"] == "interrupted" or not log.hits:
        return Ending.UNKNOWN
    if any(states[name] is State.VIOLATED for name in _NUMBERS):
        return Ending.WRONG
    if log.end["how"] == "deadline":
        return Ending.HANGS
    if log.end["code"] != 0:
        return Ending.FAILS_SILENTLY if states["explained"] is State.VIOLATED else Ending.FAILS
    return Ending.BEGINS_ANEW if log.beginnings else Ending.GOES_ON
