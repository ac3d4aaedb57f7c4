"""What happens in a run, one line of JSON for each event, in the order in which it became known."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Journal:
    """Silent after its first failure, as of a full disk."""

    def __init__(self, path: Path, began: float, failed: Callable[[], None]) -> None:
        """began: on the monotonic clock, which all processes of a host share. failed: is called once, if it fails.

        Raises OSError.
        """
        self._began = began
        self._file = path.open("ab", buffering=0)
        self._failed = failed
        self.error: OSError | None = None

    def write(self, kind: str, t: float | None = None, **fields: Any) -> None:
        at = time.monotonic() if t is None else t
        line = json.dumps({"t": round(at - self._began, 6), "kind": kind, **fields}) + "\n"
        rest = line.encode()
        try:
            while self.error is None and rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self.error = error
            self._failed()

    def close(self) -> None:
        self._file.close()
