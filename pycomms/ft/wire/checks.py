"""What a field may hold. Each check returns the value, or says which field holds what instead. Pure functions."""

from __future__ import annotations

import math

from pycomms.ft.wire.errors import WireError

HOST = 255
NONCE = 64
HANDLE = 1024
ROSTER = 128
WORDS = 2048
"""Characters of a text that is for people."""

SLOTS = 1 << 20
"""Slots are smaller than this."""

COUNT = 1 << 63
"""Counts are smaller than this."""


def text(given: str, field: str, limit: int, *, may_be_empty: bool = False) -> str:
    if not given and not may_be_empty:
        raise WireError(field, given, f"1 to {limit} characters")
    if len(given) > limit:
        raise WireError(field, given, f"up to {limit} characters")
    return given


def below(given: int, field: str, limit: int, *, least: int = 0) -> int:
    if not least <= given < limit:
        raise WireError(field, given, f"{least} to {limit - 1}")
    return given


def amount(given: float, field: str) -> float:
    if not (math.isfinite(given) and given >= 0):
        raise WireError(field, given, "a finite number, 0 or more")
    return given


def words(given: str) -> str:
    """A text for people, as it may travel: what is too long loses its middle, for its end often says most."""
    if not given.isascii():
        given = given.encode(errors="backslashreplace").decode()
    if len(given) <= WORDS:
        return given
    return f"{given[: WORDS // 2 - 5]} [...] {given[-(WORDS // 2 - 5) :]}"[:WORDS]
