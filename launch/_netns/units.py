"""Durations, shares and rates as people write them on a command line. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

_DURATIONS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)([a-z%]*)", re.IGNORECASE)


def duration(text: str) -> timedelta:
    """50ms, 1.5s, 200us."""
    return timedelta(seconds=_scaled(text, _DURATIONS, "50ms"))


def rate(text: str) -> int:
    """Bit/s: 1gbit, 100mbit, 1.5gbit."""
    return round(_scaled(text, _RATES, "100mbit"))


def share(text: str) -> float:
    """1% or 0.01."""
    return _scaled(text, {"%": 0.01, "": 1.0}, "1%")


def _scaled(text: str, units: Mapping[str, float], example: str) -> float:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise ValueError(
            f"expected a number and one of {', '.join(filter(None, units))}, such as {example}, not {text!r}"
        )
    return float(match[1]) * units[match[2].lower()]
