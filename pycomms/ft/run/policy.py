"""What follows from the end of a worker. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pycomms.ft.core.launch import JobState
from pycomms.ft.core.messages import ALL_DONE
from pycomms.ft.run.process import Ending

FIRST_PAUSE = timedelta(milliseconds=250)
LONGEST_PAUSE = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class End:
    """Of one process.

    Attributes:
        announced: it has used pycomms.ft.
        left: it has trained to the end, and said so.
        refused: the coordinator has told it that the job has ended, and why; empty: it has not.
        restarts: how often its slot has been started again already.
        failures: how many processes of the slot in a row, this one included, have ended before they trained.
    """

    rank: int
    ending: Ending
    announced: bool
    left: bool
    refused: str
    restarts: int
    failures: int

    def __str__(self) -> str:
        return f"rank {self.rank} has ended with {self.ending}"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """min_ranks: None: a slot may not stay empty for good."""

    max_restarts: int
    min_ranks: int | None


@dataclass(frozen=True, kw_only=True)
class Done:
    """The slot needs no process any more."""

    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Respawn:
    """A new process, after a pause."""

    pause: timedelta


@dataclass(frozen=True, kw_only=True)
class Vacant:
    """The slot stays empty; the others go on."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Again:
    """All workers of the job have to be started again."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class Fail:
    """The job cannot go on."""

    reason: str


Decision = Done | Respawn | Vacant | Again | Fail


def after(end: End, job: JobState, limits: Limits, others: int) -> Decision:
    """others: slots of the job that are not empty for good, without this one."""
    if end.ending.code == 0:
        return Done()
    if not job.sessions and not end.announced:
        return Again(reason=str(end))
    if end.left and not end.ending.signal:
        return Fail(reason=f"{end} behind the training, which is complete")
    if over(job) or (end.refused and job.finished) or (end.refused == ALL_DONE and job.training):
        return Done(reason=f"{end}; the training was over")
    if end.refused and not _others_may_be_finishing(end, limits):
        return Again(reason=f"{end}: {end.refused}")
    if end.restarts < limits.max_restarts:
        return Respawn(pause=pause(end.failures))
    if limits.min_ranks is not None and others >= limits.min_ranks:
        return Vacant(reason=f"{end} after {end.restarts} restarts; its slot stays empty")
    return Fail(reason=f"{end}; its slot has been started again {end.restarts} times (--max-restarts)")


def _others_may_be_finishing(end: End, limits: Limits) -> bool:
    """It was killed as all came to the end of the training, and so were the others, as far as is known. All is over
    when one has ended with 0, and to start all again is for when none does, which its successor finds."""
    return end.refused == ALL_DONE and end.failures == 0 and end.restarts < limits.max_restarts


def over(job: JobState) -> bool:
    """Somebody has finished the training, and nobody trains any more: a worker that comes now would be alone."""
    return job.finished and not job.training


def pause(failures: int) -> timedelta:
    """None after a worker that has trained, and the first time; then longer and longer."""
    if failures < 2:
        return timedelta(0)
    return min(FIRST_PAUSE * (1 << min(failures - 2, 16)), LONGEST_PAUSE)
