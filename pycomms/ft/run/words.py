"""What the agent says itself, on stderr, by way of the writer so that lines stay whole."""

from __future__ import annotations

from pycomms.ft.run.writer import Writer

_STDERR = 2


class Voice:
    """Says what has happened. Any thread."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def say(self, text: str) -> None:
        lines = "".join(f"pycomms run: {line}\n" for line in text.splitlines())
        self._writer.put(_STDERR, lines.encode(errors="backslashreplace"))
