"""Bytes into lines. Pure."""

from __future__ import annotations

LONGEST = 1 << 20
"""Bytes that one line may have; what is longer becomes several."""


class Lines:
    """Cuts a stream after each line feed and carriage return, so that progress bars show as they move."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are whole now, each with its end."""
        # What cannot end the line that has begun is not looked at again.
        if self._rest and (b"\n" in data or b"\r" in data or self._rest[-1].endswith(b"\r")):
            data = b"".join((*self._rest, data))
            self._rest, self._length = [], 0
        lines = data.splitlines(keepends=True)  # of bytes: at these two only
        # A carriage return at the very end may be half of a line's end: it waits for what comes next.
        if lines and not lines[-1].endswith(b"\n"):
            rest = lines.pop()
            self._rest.append(rest)
            self._length += len(rest)
        if self._length > LONGEST:
            lines.extend(self.end())
        return lines

    def end(self) -> list[bytes]:
        """What is left when the stream has ended, as a line."""
        rest = b"".join(self._rest)
        self._rest, self._length = [], 0
        return [rest + b"\n"] if rest else []
