"""What happens in a run, one line of JSON for each event, in the order in which it became known."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any


class Journal:
    def __init__(self, path: Path, began: float) -> None:
        """began: on the monotonic clock, which all processes of a host share."""
        self._began = began
        self._file = path.open("a", buffering=1)

    def write(self, kind: str, t: float | None = None, **fields: Any) -> None:
        at = time.monotonic() if t is None else t
        self._file.write(json.dumps({"t": round(at - self._began, 6), "kind": kind, **fields}) + "\n")

    def close(self) -> None:
        self._file.close()
