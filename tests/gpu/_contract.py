"""The collective contract: every operation x data type x reduction x size x {sync, async} that NCCL can do, against
values computed on the CPU of the rank. In a mixed order, so that a run that is out of time has seen some of everything.

`play_cases` runs on a rank, the rest in the parent.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist

from tests.cuda.test_matrix import nccl_can_move, nccl_can_reduce
from tests.multirank._harness import RanksError, context
from tests.multirank._ops import Case
from tests.multirank._tally import Tally
from tests.multirank.test_matrix import check_cases, moving_cases, reducing_cases

from ._rank import play
from ._report import AreaReport
from ._setting import Deadline, Setting

_BATCH = 40
_QUICK = 400
_MOST_BREAKS = 3  # then the rest is not played
_GRACE_S = 10.0  # for what is in flight when the time is over


def contract(setting: Setting, report: AreaReport, deadline: Deadline) -> None:
    for number, world in enumerate(setting.worlds):
        _Player(setting, report, world).play(deadline.sooner(deadline.left() / (len(setting.worlds) - number)))


def cases_of(world: int) -> list[Case]:
    cases = [case for case in moving_cases(world) if nccl_can_move(case)]
    cases += [case for case in reducing_cases(world) if nccl_can_reduce(case)]
    random.Random(world).shuffle(cases)
    return cases


@dataclass(frozen=True)
class _Player:
    """Plays all cases with so many ranks. What breaks the group is noted, and a new one goes on behind it."""

    setting: Setting
    report: AreaReport
    world: int

    def play(self, deadline: Deadline) -> None:
        cases = cases_of(self.world)[: _QUICK if self.setting.quick else None]
        total, breaks = len(cases), 0
        while cases and deadline.left() > 1.0 and breaks < _MOST_BREAKS:
            played, broke = self._play_some(cases, deadline)
            breaks += broke
            cases = cases[played:]
            if not broke and cases:
                break  # the ranks saw that the time is over
        if breaks == _MOST_BREAKS:
            self.report.failed.append(f"{self.world} ranks: given up, {len(cases)} of {total} cases are left")
        elif cases:
            self.report.out_of_time.append(f"{len(cases)} of {total} cases, {self.world} ranks")

    def _play_some(self, cases: list[Case], deadline: Deadline) -> tuple[int, bool]:
        """How many were played, and whether the last of them broke the group."""
        seconds = deadline.left()
        with self.setting.ranks.start(
            play, play_cases, False, cases, seconds, world=self.world, init=False, timeout=seconds + _GRACE_S
        ) as run:
            error: RanksError | None = None
            try:
                run.finish()
            except RanksError as caught:
                error = caught
            told: list[list[Tally]] = [run.heard(rank) for rank in range(self.world)]
            if error is not None:
                self.report.failed.append(f"{self.world} ranks: {error}")
        batches = min(map(len, told))
        for number in range(batches):
            self._count([tallies[number] for tallies in told])
        # The batch in which the group broke is passed over.
        return (batches + (error is not None)) * _BATCH, error is not None

    def _count(self, tallies: list[Tally]) -> None:
        failures = [f"rank {rank}: {text}" for rank, tally in enumerate(tallies) for text in tally.failures]
        wrong = {text.partition(":")[0] for tally in tallies for text in tally.failures}
        for rank, tally in enumerate(tallies):
            pairs = zip(tallies[0].digests, tally.digests, strict=False)
            different = [first[0] for first, other in pairs if first != other]
            failures += [f"rank {rank}: {case}: not the bits of rank 0" for case in different]
            wrong.update(different)
        self.report.failed += failures
        self.report.passed += max(0, sum(tallies[0].checked.values()) - len(wrong))


def play_cases(rank: int, world: int, cases: list[Case], seconds: float) -> None:
    """Tells the parent of each batch. Ends when rank 0 says that the time is over."""
    deadline = time.monotonic() + seconds
    for start in range(0, len(cases), _BATCH):
        if not agreed(time.monotonic() < deadline):
            return
        batch = cases[start : start + _BATCH]
        # Not as strict as with our own engine: another order of summation is right, too.
        context().tell(check_cases(rank, world, batch, "cuda", strict=False))
        torch.cuda.synchronize()


def agreed(value: float) -> float:
    """What rank 0 says, on all ranks. On the CPU, so that no GPU waits for it."""
    tensor = torch.tensor([float(value)], dtype=torch.float64)
    dist.broadcast(tensor, 0)
    return float(tensor)
