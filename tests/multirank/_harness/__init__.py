"""Runs a plain function on N ranks, each a real process, and brings back what every rank returned or raised.

`Ranks` and `Run` are for the test (the parent process); `context()` is for the function that runs on a rank.
"""

from __future__ import annotations

from .context import Context, context, register_backend
from .outcome import Died, Failed, Ok, RanksError
from .pool import Pool
from .run import Ranks, Run

__all__ = ["Context", "Died", "Failed", "Ok", "Pool", "Ranks", "RanksError", "Run", "context", "register_backend"]
