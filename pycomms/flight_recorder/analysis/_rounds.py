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
    before = {rank: _before(job, group, sequence, rank) for rank in (usual, *odd)}
    theirs = before[usual]
    lane = job.groups[group].lanes[usual]
    at = lane.at(sequence - lane.shift)
    if at is None:
        return None
    now = int(steps(job, lane, sequence)[0])
    for size in range(1, min(_LONGEST, len(theirs) // _FEWEST) + 1):
        if theirs[-size] == now and (theirs[-size:] == theirs[-2 * size : -size]).all():
            count = _repeats(theirs, size)
            shown = _FEWEST * size
            if count >= _FEWEST and all(np.array_equal(before[rank][-shown:], theirs[-shown:]) for rank in odd):
                return Rounds(operations=size, count=count)
    return None


def _before(job: Job, group: int, sequence: int, rank: int) -> npt.NDArray[np.int64]:
    lane = job.groups[group].lanes[rank]
    every = steps(job, lane, 0)
    return every[lane.sequences + lane.shift < sequence]


def _repeats(issued: npt.NDArray[np.int64], size: int) -> int:
    """How often the last `size` numbers stand at the end, one behind the other."""
    whole = len(issued) // size
    rounds = issued[len(issued) - whole * size :].reshape(whole, size)
    unlike = np.flatnonzero((rounds != rounds[-1]).any(axis=1))
    return whole - (int(unlike[-1]) + 1 if len(unlike) else 0)
