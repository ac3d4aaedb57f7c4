"""How far a run is, on standard error: one line that changes on a terminal, a line after the other elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TextIO

_CLEAR = "\r\x1b[K"


class Progress:
    """clock: in seconds. seconds: that the run should take."""

    def __init__(self, stream: TextIO, clock: Callable[[], float], seconds: float) -> None:
        self._stream = stream
        self._clock = clock
        self._seconds = seconds
        self._began = clock()
        self._is_terminal = stream.isatty()

    def say(self, text: str) -> None:
        first, *rest = f"{self._clock() - self._began:3.0f} of {self._seconds:.0f} s  {text}".splitlines()
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(_CLEAR + first[:width])
        else:
            self._stream.write("\n".join([first, *rest, ""]))
        self._stream.flush()

    def end(self) -> None:
        if self._is_terminal:
            self._stream.write(_CLEAR)
            self._stream.flush()
