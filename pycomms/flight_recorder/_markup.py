"""Text of strangers, for HTML. Must not know: what the pages show."""

from __future__ import annotations

from html import escape

from pycomms.flight_recorder._words import printable


def safe(text: str) -> str:
    """Neither markup, nor letters that turn the direction of what follows."""
    return escape(printable(text))
