"""The loop that the ranks were in before they parted: a rank that is behind it has done a round less than the others.

Skipping a whole round shows nowhere else: numbers and lines agree again, one round apart, until the loop ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pycomms.flight_recorder.analysis._job import Job
from pycomms.flight_recorder.analysis._skips import steps
from pycomms.flight_recorder.analysis._text import ranks_text

_LONGEST = 256
"""Operations a round."""
_FEWEST = 3
"""Rounds that make a loop."""


@dataclass(frozen=True, kw_only=True)
class Rounds:
    """operations: of one round. count: how many came before, as far as the records go back."""

    operations: int
    count: int

    def seen(self, usual: Sequence[int]) -> str:
        same = "operation" if self.operations == 1 else f"{self.operations} operations"
        return f"before it all issued the same {same} {self.count} times over, and {ranks_text(usual)} go on with that"

    def advice(self, odd: Sequence[int]) -> str:
        return (
            f"{ranks_text(odd)} left out a round of that loop and came to what is behind it: look in it for continue, "
            "break, a caught exception, less data; what was combined since then did not belong together"
        )


def rounds_before(job: Job, group: int, sequence: int, usual: int, odd: Sequence[int]) -> Rounds | None:
    """The loop in which `usual` goes on with the operation of that number, and in which `odd` were before it."""
    theirs, now = _until(job, group, usual, sequence)
    others = [_until(job, group, rank, sequence)[0] for rank in odd]
    for size in range(1, min(_LONGEST, len(theirs) // _FEWEST) + 1):
        count = _repeats(theirs, size) if theirs[-size] == now else 0
        shown = _FEWEST * size
        if count >= _FEWEST and all(np.array_equal(own[-shown:], theirs[-shown:]) for own in others):
            return Rounds(operations=size, count=count)
    return None


def _until(job: Job, group: int, rank: int, sequence: int) -> tuple[npt.NDArray[np.int64], int | None]:
    """What a rank issued before the operation with that number, and that; None: it is not in its record."""
    lane = job.groups[group].lanes[rank]
    issued, at = steps(job, lane, 0), lane.at(sequence - lane.shift)
    return (issued, None) if at is None else (issued[:at], int(issued[at]))


def _repeats(issued: npt.NDArray[np.int64], size: int) -> int:
    """How often the last `size` numbers stand at the end, one behind the other."""
    whole = len(issued) // size
    rounds = issued[len(issued) - whole * size :].reshape(whole, size)
    unlike = np.flatnonzero((rounds != rounds[-1]).any(axis=1))
    return whole - (int(unlike[-1]) + 1 if len(unlike) else 0)
