"""Answers that all members get alike, whoever dies meanwhile: for what cannot be taken back when a step is.

    round 1  all tell their flag, and whether they know the answer of this call from an earlier attempt
    round 2  only where somebody has gone: all tell whom they miss          now each member knows the answer
    round 3  all tell that they do                                         now each member may give it out

Whoever gives an answer out has passed round 3, so every member of the group knows it. Those who live on bring it to the
next attempt, where all take it: no two members, also if one is dead by then, have got different answers of one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """What :meth:`Step.agree` gives, the same on all members.

    Attributes:
        value: whether all have said True who took part.
        failed: slots whose members were in when the step was tried first, and have gone since.
    """

    value: bool
    failed: tuple[int, ...] = ()


class Agreements:
    """The calls of one step, on this member."""

    def __init__(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self._step = 0
        self._missed: set[int] = set()
        self._known: list[Agreement] = []  # of this step, in the order of the calls; perhaps not given out by anybody
        self._calls = 0

    def begin(self, step: int) -> None:
        """An attempt of a step, which may be the first."""
        self._calls = 0
        if step != self._step:
            self._step = step
            self._known.clear()
            self._missed.clear()

    def miss(self, slots: Sequence[int]) -> None:
        """Members have gone that were in with this one."""
        self._missed.update(slots)

    def agree(self, group: dist.ProcessGroup, flag: bool) -> Agreement:
        """Raises what the group raises: then it is not known yet whether others have the answer."""
        place, self._calls = self._calls, self._calls + 1
        known = self._known[place] if place < len(self._known) else None
        missed = known.failed if known else tuple(sorted(self._missed))
        call = (self._step, -self._step, place, -place)
        extent = max(missed, default=-1) + 1
        told = (*call, not flag, known is not None, known is not None and known.value, extent)
        *found, no, is_known, known_value, extent = highest(group, told, self._timeout)
        if tuple(found) != call:
            raise RuntimeError(
                f"members disagree: this one is at call {place + 1} of agree() in step {self._step}, others are at up "
                f"to call {found[2] + 1} in step {found[0]}: all have to call it, in the same order"
            )
        # Where somebody knows the answer, it has the failures in it, and what others miss is of a later time.
        if extent:
            own = missed if known or not is_known else ()
            marks = highest(group, [slot in own for slot in range(extent)], self._timeout)
            missed = tuple(slot for slot, mark in enumerate(marks) if mark)
        answer = Agreement(value=bool(known_value) if is_known else not no, failed=missed)
        if known is None:
            self._known.append(answer)
        highest(group, call, self._timeout)
        return answer


def highest(group: dist.ProcessGroup, told: Sequence[int], timeout: timedelta) -> list[int]:
    """Of each number the highest that a member has told. Collective; raises what the group raises."""
    numbers = torch.tensor(told, dtype=torch.int64)
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.MAX
    options.timeout = timeout
    options.asyncOp = False
    work = group.allreduce([numbers], options)
    if work is not None:
        work.wait()
    found: list[int] = numbers.tolist()
    return found
