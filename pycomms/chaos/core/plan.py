"""What a run is to suffer, and what is expected of it then: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from pycomms.chaos.core.kinds import KINDS, Kind, Value

ANY = -1
"""A rank that the seed chooses."""

MOMENTS = ("before", "inside", "after")
OUTCOMES = ("completes", "restarts", "fails", "any")
INJECTED = ("all", "some")


@dataclass(frozen=True, kw_only=True)
class Trigger:
    """When a fault happens. All that is said has to be true; one of seconds, step, op and point is said.

    Attributes:
        seconds: after the first step or operation of any rank.
        step: in the first step that the rank begins that has this number or a higher one.
        op: at that operation of torch.distributed; "any": at whichever.
        point: at that place of a session.
        count: at the n-th of these operations or places: of the step, where one is said, otherwise of the process.
        moment: before the operation, a millisecond after it has begun, or behind it.
        start: of the n-th process only that has the rank's place in the job; None: of any.
        rank: whose steps and operations; None: those of the ranks that suffer.
    """

    seconds: float | None = None
    step: int | None = None
    op: str | None = None
    point: str | None = None
    count: int = 1
    moment: str = "before"
    start: int | None = None
    rank: int | None = None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Attributes:
    ranks: who suffers, each by itself; `ANY`: one that the seed chooses. Empty: `process` does.
    process: "coordinator" or "agent".
    times: how often for each rank: whoever takes its place suffers again.
    settings: all of the kind's, by name.
    """

    kind: str
    at: Trigger
    ranks: tuple[int, ...] = ()
    process: str = ""
    times: int = 1
    settings: Mapping[str, Value] = field(default_factory=dict)

    @property
    def of(self) -> Kind:
        return KINDS[self.kind]


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """Attributes:
    outcome: "completes": the job ends with exit code 0. "restarts": so too, and it has begun anew, because a fault has
        ended everybody who had the state. "fails": with another one, by itself.
    injected: "all": every fault has to happen, as often as it says, or the run proves nothing. "some": one at least, as
        where faults are drawn, of which one may be in the way of another.
    recovery: seconds from a fault to the next step of those who have survived it, at most.
    violations: invariants that have to be found violated: a plan that shows that the check sees what it should.
    """

    outcome: str = "completes"
    injected: str = "all"
    recovery: float = 15.0
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Attributes:
    ranks: of the job that it is for; 0: any number. Ranks that a seed chooses are below it.
    duration: seconds that the job may take in all.
    steps: that the standard job takes, unless its command line says how many; 0: it knows by itself.
    hosts: the ranks act as if they were on so many hosts, so that pycomms connects them by TCP; 0: as they are.
    """

    name: str
    about: str = ""
    seed: int = 0
    ranks: int = 0
    duration: float = 120.0
    steps: int = 0
    hosts: int = 0
    faults: tuple[Fault, ...] = ()
    expect: Expectation = field(default_factory=Expectation)


def sides(fault: Fault, of_ranks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of a fault that is done to both."""
    others = cast("list[int]", fault.settings["others"])
    return fault.ranks, tuple(others or (rank for rank in range(of_ranks) if rank not in fault.ranks))


def words(fault: Fault) -> str:
    """For people: one line."""
    who = fault.process or ("rank " if len(fault.ranks) == 1 else "ranks ") + ", ".join(
        "any" if rank == ANY else str(rank) for rank in fault.ranks
    )
    defaults = {setting.name: setting.default for setting in fault.of.settings}
    more = ", ".join(f"{name}={value}" for name, value in fault.settings.items() if value != defaults[name])
    often = f", {fault.times} times" if fault.times > 1 else ""
    return f"{fault.kind} {who}{f' ({more})' if more else ''} {when(fault.at)}{often}"


def when(at: Trigger) -> str:
    whose = f" of rank {at.rank}" if at.rank is not None else ""
    whose += f" of start {at.start}" if at.start is not None else ""
    if at.seconds is not None:
        return f"after {at.seconds:g} s"
    step = f"step {at.step}" if at.step is not None else ""
    number = f" number {at.count}" if at.count > 1 else ""
    if at.op is not None:
        return f"{at.moment} {at.op}{number}{f' of {step}' if step else ''}{whose}"
    if at.point is not None:
        return f"at {at.point!r}{number}{f' of {step}' if step else ''}{whose}"
    return f"at {step}{whose}"
