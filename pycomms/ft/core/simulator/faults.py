"""What goes wrong in a schedule: a list, from a seed, that can be printed, repeated and made shorter."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

from pycomms.ft.core.simulator.settings import Settings


class Kind(Enum):
    KILL = "kill"  # the process in a slot
    KILL_AT = "kill at"  # whoever is the count-th to reach a stage
    HANG = "hang"  # it hears and does nothing; then goes on as if nothing had been
    SLOW = "slow"
    CRASH = "crash"  # a whole host; it boots again and knows nothing
    DROP = "drop"  # a connection to the coordinator
    CUT_COORDINATOR = "cut coordinator"  # hosts from the coordinator
    CUT_PEERS = "cut peers"  # hosts from the other hosts
    ISOLATE = "isolate"  # both
    DEAF = "deaf"  # a member hears the coordinator, and none of the others
    RESTART = "restart"  # the coordinator, with its log
    FORGET = "forget"  # the coordinator, without
    SECOND = "second"  # another coordinator takes over for some hosts, and the first does not know
    MOVE = "move"  # hosts go to the coordinator that stands by, one by one, and back again; the first may have crashed


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Attributes:
    at: seconds from the beginning.
    slots: whom it strikes; of hosts: those of which a slot is named.
    seconds: how long.
    stage: of `Stage`, for KILL_AT.
    count: which of those who reach it.
    """

    kind: Kind
    at: float = 0.0
    slots: tuple[int, ...] = ()
    seconds: float = 0.0
    stage: str = ""
    count: int = 0

    def __str__(self) -> str:
        where = f" of slots {', '.join(map(str, self.slots))}" if self.slots else ""
        when = f"the {self.count}th to be {self.stage}" if self.stage else f"at {self.at:.3f} s{where}"
        return f"{self.kind.value} {when}" + (f" for {self.seconds:.3f} s" if self.seconds else "")


STAGES = ("standing", "regrouping", "restoring", "computing", "reduced", "voted", "closing")
WEIGHTS = {
    Kind.KILL: 6,
    Kind.KILL_AT: 8,
    Kind.HANG: 2,
    Kind.SLOW: 1,
    Kind.CRASH: 2,
    Kind.DROP: 4,
    Kind.CUT_COORDINATOR: 1,
    Kind.CUT_PEERS: 1,
    Kind.ISOLATE: 1,
    Kind.DEAF: 1,
    Kind.RESTART: 2,
    Kind.FORGET: 2,
    Kind.SECOND: 1,
    Kind.MOVE: 2,
}

LARGE = (Kind.SLOW, Kind.DROP, Kind.HANG, Kind.CUT_COORDINATOR, Kind.ISOLATE, Kind.RESTART, Kind.FORGET)


def small_plan(rng: random.Random, settings: Settings, seconds: float) -> list[Fault]:
    """A few faults of any kind, often close to each other."""
    moment = rng.uniform(0, seconds)
    faults = []
    for _ in range(rng.randint(1, 7)):
        if rng.random() < 0.4:
            moment = rng.uniform(0, seconds)
        kind = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        slots = tuple(sorted(rng.sample(range(settings.members), rng.randint(1, max(1, settings.members // 2)))))
        if kind in (Kind.KILL, Kind.HANG, Kind.SLOW, Kind.CRASH, Kind.DROP, Kind.DEAF) and rng.random() < 0.7:
            slots = slots[:1]
        faults.append(
            Fault(
                kind=kind,
                at=max(0.0, moment + rng.gauss(0, 0.02)),
                slots=() if kind in (Kind.KILL_AT, Kind.RESTART, Kind.FORGET) else slots,
                seconds=rng.choice((0.0, 0.01, 0.1, 0.5, 1.0, 4.0)),
                stage=rng.choice(STAGES) if kind is Kind.KILL_AT else "",
                count=rng.randint(1, 60) if kind is Kind.KILL_AT else 0,
            )
        )
    return faults


def bursts_of(failures: int) -> int:
    return max(1, round(failures / 100))


def large_plan(rng: random.Random, settings: Settings, failures: int, seconds: float) -> list[Fault]:
    """So many members that die, in bursts, and everything else now and then."""
    faults: list[Fault] = []
    bursts = bursts_of(failures)
    left = failures
    for burst in range(bursts):
        at = seconds * (burst + rng.uniform(0.2, 0.8)) / bursts
        share = left // (bursts - burst)
        left -= share
        hosts = share // settings.ranks_per_host // 3
        faults += (
            Fault(kind=Kind.CRASH, at=at, slots=(host * settings.ranks_per_host,), seconds=5.0)
            for host in rng.sample(range(settings.hosts), hosts)
        )
        faults += (
            Fault(kind=Kind.KILL, at=at + rng.uniform(0, 0.2), slots=(slot,))
            for slot in rng.sample(range(settings.members), share - hosts * settings.ranks_per_host)
        )
        other = rng.choice(LARGE)
        slots = tuple(rng.sample(range(settings.members), 8))
        alone = other in (Kind.RESTART, Kind.FORGET)
        faults.append(Fault(kind=other, at=at + rng.uniform(0, 4), slots=() if alone else slots, seconds=1.0))
    return faults
