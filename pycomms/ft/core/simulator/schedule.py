"""One schedule from a seed: runs it, says what came of it, and finds the fewest faults that still break it."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from pycomms.ft.core.phases import Phase
from pycomms.ft.core.simulator.checks import ViolationError
from pycomms.ft.core.simulator.faults import Fault, bursts_of, large_plan, small_plan
from pycomms.ft.core.simulator.settings import Settings
from pycomms.ft.core.simulator.world import World
from pycomms.ft.core.timeouts import derive

PATIENCE = 90.0  # simulated seconds after the last fault until all has to be well


@dataclass(frozen=True, kw_only=True)
class Schedule:
    seed: int
    settings: Settings
    faults: tuple[Fault, ...]
    seconds: float  # until the last fault


@dataclass(kw_only=True)
class Outcome:
    """Attributes:
    end: how the job ended; empty: it goes on.
    quorum_seconds: of the processor, in the coordinator that was there last.
    """

    violation: str = ""
    end: str = ""
    epochs: int = 0
    committed: int = 0
    given_up: int = 0
    restored: int = 0
    simulated_seconds: float = 0.0
    seconds: float = 0.0
    quorum_seconds: float = 0.0
    events: Counter[str] = field(default_factory=Counter)
    notices: Counter[str] = field(default_factory=Counter)


def small(seed: int) -> Schedule:
    """From 2 to 8 members on 1 to 4 hosts, for two seconds."""
    rng = random.Random(f"{seed} schedule")
    members = rng.randint(2, 8)
    settings = Settings(
        members=members,
        min_ranks=rng.randint(1, max(1, members // 2)),
        ranks_per_host=rng.randint(1, 3),
        steps=rng.choice((None, None, 10, 30)),
        timeouts=derive(timedelta(seconds=2)),
    )
    seconds = 2.0
    return Schedule(seed=seed, settings=settings, faults=tuple(small_plan(rng, settings, seconds)), seconds=seconds)


def large(seed: int, members: int, failures: int) -> Schedule:
    """Members on hosts of 8, that die in bursts 30 s after each other."""
    rng = random.Random(f"{seed} schedule")
    settings = Settings(
        members=members,
        min_ranks=members // 2,
        ranks_per_host=min(8, members),
        compute=5.0,
        respawn=2.0,
        timeouts=derive(timedelta(seconds=10), beat=timedelta(milliseconds=800)),
    )
    seconds = 30.0 * bursts_of(failures)
    faults = large_plan(rng, settings, failures, seconds)
    return Schedule(seed=seed, settings=settings, faults=tuple(faults), seconds=seconds)


def run(schedule: Schedule) -> Outcome:
    began = time.perf_counter()
    world = World(schedule.settings, schedule.seed, schedule.faults)
    outcome = Outcome()
    try:
        _run(world, schedule)
    except (ViolationError, AssertionError, LookupError) as err:
        outcome.violation = f"{type(err).__name__}: {err}"
    observer = world.observer
    outcome.end = world.ended or ("done" if observer.done else "")
    outcome.epochs = len(observer.epochs)
    outcome.committed = max((step for _, step in observer.committed), default=0)
    outcome.given_up = observer.given_up
    outcome.restored = observer.restored
    outcome.events, outcome.notices = world.events, world.notices
    outcome.simulated_seconds = world.loop.now
    outcome.seconds = time.perf_counter() - began
    outcome.quorum_seconds = world.coordinator.seconds
    return outcome


def _run(world: World, schedule: Schedule) -> None:
    world.loop.run(schedule.seconds)
    world.loop.run(schedule.seconds + max((fault.seconds for fault in schedule.faults), default=0.0) + 0.1)
    world.heal()
    healed = world.loop.now
    while not world.is_well():
        if world.loop.now > healed + PATIENCE:
            raise ViolationError(f"not well {PATIENCE:g} s after the last fault: {_state(world)}")
        world.loop.run(world.loop.now + 4 * schedule.settings.compute)
    if world.coordinator.quorum.view().phase is not Phase.ENDED:
        before = len(world.observer.committed)
        world.loop.run(world.loop.now + 20 * schedule.settings.compute)
        if len(world.observer.committed) == before and not world.observer.done:
            raise ViolationError(f"all is well, and no step is committed: {_state(world)}")
    world.is_over = True


def _state(world: World) -> str:
    view = world.coordinator.quorum.view()
    members = ", ".join(
        f"{one.id.nonce} in slot {one.slot} {one.now.stage.value} {one.now.position.committed}"
        f" epoch {one.group.form.epoch if one.group else None}"
        for one in list(world.members.values())[:10]
    )
    return f"coordinator {view.phase.value} ({view.reason}) epoch {view.epoch}; {len(world.members)} members: {members}"


def shrink(schedule: Schedule) -> Schedule:
    """Leaves out faults for as long as it still fails."""
    faults = list(schedule.faults)
    index = 0
    while index < len(faults):
        fewer = [fault for at, fault in enumerate(faults) if at != index]
        if run(_with(schedule, fewer)).violation:
            faults = fewer
        else:
            index += 1
    return _with(schedule, faults)


def _with(schedule: Schedule, faults: Sequence[Fault]) -> Schedule:
    return Schedule(seed=schedule.seed, settings=schedule.settings, faults=tuple(faults), seconds=schedule.seconds)
