"""What is wrong with bytes that somebody has sent."""

from __future__ import annotations


class WireError(ValueError):
    """Bytes that are no message, or a message that makes no sense.

    Attributes:
        field: which part of the message, such as ``"form.seats[3].member.nonce"``.
        given: what was there, shortened.
        expected: what should have been.
    """

    def __init__(self, field: str, given: object, expected: str) -> None:
        text = given if isinstance(given, str) else repr(given)
        self.field = field
        self.given = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
        self.expected = expected
        super().__init__(f"{field} is {self.given!r}, expected {expected}")


_SHOWN = 80
