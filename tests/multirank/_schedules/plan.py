"""What a schedule of faults is, and how one is drawn from a seed. Pure: the same seed gives the same schedule for ever.

A job of a few processes goes through some rounds. In each it gets into trouble, regroups, and has to be well again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

# Operations in which members die, and which are in flight when a group is given up.
OPERATIONS = ("all_reduce", "all_reduce_large", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "barrier")
_LARGEST = 6  # processes alive at once: more than that only wait for the two cores


class Moment(Enum):
    """When a member dies. The last three are points of a regroup: pycomms._C.set_regroup_probe."""

    IDLE = "idle"
    IN_OPERATION = "in operation"
    BEFORE_PREPARE = "before_prepare"
    PREPARED = "prepared"
    COMMITTED = "committed"

    @property
    def is_in_regroup(self) -> bool:
        return self in (Moment.BEFORE_PREPARE, Moment.PREPARED, Moment.COMMITTED)


class Trouble(Enum):
    """What has become of the group before it is regrouped, beside deaths."""

    NONE = "none"
    IN_FLIGHT = "in flight"  # operations that not all have issued
    ABORTED = "aborted"
    TIMED_OUT = "timed out"
    MISMATCH = "mismatch"


@dataclass(frozen=True)
class Death:
    """victim: a number below 1000, by which one of those who are there is chosen."""

    moment: Moment
    victim: int


@dataclass(frozen=True)
class Round:
    trouble: Trouble
    operation: str
    deaths: tuple[Death, ...]
    leave: int | None  # one who is left out, alive; chosen as a victim is
    join: int
    order: int  # seed of the order of the new ranks; negative: handles are given as a set


@dataclass(frozen=True)
class Schedule:
    seed: int
    world: int
    rounds: tuple[Round, ...]


def draw(seed: int) -> Schedule:
    dice = random.Random(seed)
    world = dice.randint(2, 5)
    return Schedule(seed, world, tuple(_round(dice) for _ in range(dice.randint(1, 3))))


def _round(dice: random.Random) -> Round:
    trouble = dice.choices(list(Trouble), weights=[4, 2, 1, 1, 1])[0]
    moments = list(Moment)
    deaths = tuple(Death(dice.choice(moments), dice.randrange(1000)) for _ in range(dice.choice((0, 1, 1, 1, 2, 3))))
    return Round(
        trouble=trouble,
        operation=dice.choice(OPERATIONS),
        deaths=deaths,
        leave=dice.randrange(1000) if dice.random() < 0.15 else None,
        join=dice.choice((0, 0, 1, 1, 2)),
        order=dice.choice((-1, dice.randrange(1000))),
    )


def room_for(alive: int, wanted: int) -> int:
    """How many newcomers there is room for."""
    return max(0, min(wanted, _LARGEST - alive))


def processes(schedule: Schedule) -> int:
    """Enough for all who are there at the beginning and all who may come."""
    return schedule.world + sum(max(one.join, 1) for one in schedule.rounds)
