"""Faults for real jobs, on purpose and repeatable, and the proof that the job has got over them: `pycomms chaos`.

A program needs no line of this. One that wants its steps counted and its numbers checked may say them here; that costs
a look into a dictionary where no controller watches. docs/chaos.md.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["record", "step", "steps"]


def step(number: int) -> None:
    """A step of the program begins: for faults that wait for one. Sessions of :mod:`pycomms.ft` say it themselves.

    Raises:
        ValueError: the number is none.
    """
    worker = _worker()
    if worker is not None:
        if not isinstance(number, int):
            raise ValueError(f"number: given {number!r}, expected a whole number")
        worker.step(number, "program")


def steps(default: int) -> int:
    """How many steps the plan wants a program to take that has no number of its own; default: where it does not say."""
    worker = _worker()
    return (worker.steps if worker is not None and worker.awake() else 0) or default


def record(kind: str, **fields: object) -> None:
    """Puts an event into the log of the run. docs/chaos.md#numbers-of-your-own says which kinds are checked.

    Args:
        fields: what JSON can hold, half a megabyte at most.

    Raises:
        ValueError: the kind is one of pycomms itself, or a field is missing or of another type than its kind needs.
    """
    worker = _worker()
    if worker is not None:
        from pycomms.chaos.core.events import check_told  # here, for whoever is not watched has no use for it

        check_told(kind, fields)
        worker.record({"kind": kind, **fields})


def _worker() -> Any:
    return getattr(sys.modules.get("_pycomms_chaos"), "worker", None)
