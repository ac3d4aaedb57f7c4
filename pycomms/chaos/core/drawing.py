"""From a seed: a whole plan, or who the ranks are that a plan leaves to the seed. The same seed gives the same."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

from pycomms.chaos.core.kinds import KINDS, Effect, Form, Kind, Value
from pycomms.chaos.core.parse import MOST_RANKS
from pycomms.chaos.core.plan import ANY, MOMENTS, Expectation, Fault, Plan, Trigger

_GOT_OVER = (Effect.DEATH, Effect.STALL, Effect.SLOW, Effect.SERVICE)
SURVIVABLE = tuple(kind.name for kind in KINDS.values() if kind.effect in _GOT_OVER and not kind.on_emulator)
"""What a job has to get over by itself."""

_MOST_DRAWN = 4
"""Faults of a plan."""
_PER_STEP = ("step", "reduced", "voted", "decided", "committed")
"""Points that come in each step."""
_LAST_STEP = 40
_SPARED_S = 60.0
_MOST_FAULTS = 100_000
"""Of a soak: a week of one every six seconds."""


def settle(plan: Plan) -> Plan:
    """With ranks for those that the seed is to choose: of a fault, each another one."""
    draw = random.Random(f"ranks {plan.seed}")
    return replace(plan, faults=tuple(_settled(fault, plan.ranks, draw) for fault in plan.faults))


def _settled(fault: Fault, of_ranks: int, draw: random.Random) -> Fault:
    free = [rank for rank in range(of_ranks) if rank not in fault.ranks]
    chosen = [free.pop(draw.randrange(len(free))) if rank == ANY and free else rank for rank in fault.ranks]
    return replace(fault, ranks=tuple(rank for rank in chosen if rank != ANY))


def draw_plan(seed: int, ranks: int, kinds: Sequence[str] = SURVIVABLE) -> Plan:
    """A few faults of these kinds. One rank suffers nothing, so that somebody has the state.

    Raises:
        ValueError: there are too few ranks, or no such kind.
    """
    _check(ranks, kinds)
    draw = random.Random(f"plan {seed}")
    spared = draw.randrange(ranks)
    hit = [rank for rank in range(ranks) if rank != spared]
    faults = tuple(_drawn(KINDS[draw.choice(list(kinds))], hit, draw) for _ in range(draw.randint(1, _MOST_DRAWN)))
    return Plan(
        name=f"random-{seed}", seed=seed, ranks=ranks, faults=faults, expect=Expectation(injected="some", recovery=30.0)
    )


def draw_soak(seed: int, ranks: int, seconds: float, every: float, kinds: Sequence[str] = SURVIVABLE) -> Plan:
    """For so long, a fault about every so many seconds, each of one of these kinds. Anybody may suffer, but one rank is
    spared for a minute and more, and then another one: somebody has to have the state, while others are being started.

    Raises:
        ValueError: as of `draw_plan`; or the time is too short for a fault.
    """
    _check(ranks, kinds)
    if not 0 < every <= seconds:
        raise ValueError(f"every: given {every:g}, expected seconds above 0, and no more than the {seconds:g} of all")
    if seconds / every > _MOST_FAULTS:
        raise ValueError(
            f"every: given {every:g} for {seconds:g} s, expected no more than {_MOST_FAULTS} faults in all"
        )
    for name in kinds:
        if KINDS[name].on_operation:
            raise ValueError(f"faults: given {name!r}, expected kinds that need no operation: they come by the clock")
    draw = random.Random(f"soak {seed}")
    term = max(math.ceil(_SPARED_S / every), 2)
    spared = draw.sample(range(ranks), ranks) if ranks > 2 else [draw.randrange(ranks)]
    faults = []
    for number in range(1, int(seconds / every) + 1):
        begin = every * (number + draw.uniform(-0.3, 0.3))
        # Whoever is spared next has to be whole by then.
        kept = {spared[(number + later) // term % len(spared)] for later in range(term // 2 + 1)}
        suffering = [rank for rank in range(ranks) if rank not in kept]
        fault = _drawn(KINDS[draw.choice(list(kinds))], suffering, draw, Trigger(seconds=round(begin, 3)))
        faults.append(replace(fault, times=1))
    return Plan(
        name=f"soak-{seed}",
        seed=seed,
        ranks=ranks,
        duration=1.5 * seconds + 300,
        faults=tuple(faults),
        expect=Expectation(injected="some", recovery=30.0),
    )


def _check(ranks: int, kinds: Sequence[str]) -> None:
    if not 2 <= ranks <= MOST_RANKS:
        raise ValueError(
            f"ranks: given {ranks}, expected {MOST_RANKS} at most, and at least 2: somebody has to be left"
        )
    check_kinds(kinds)


def check_kinds(kinds: Sequence[str]) -> None:
    """Raises ValueError where there is none of such a name."""
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"faults: given {kind!r}, expected of {', '.join(KINDS)}")


def _drawn(kind: Kind, hit: Sequence[int], draw: random.Random, at: Trigger | None = None) -> Fault:
    several = min(len(hit), draw.choice((1, 1, 1, 2)))
    is_service = kind.on_service and draw.random() < 0.2
    is_by_clock = at is not None
    at = at or _moment(kind, draw)
    if is_service and not is_by_clock:
        at = replace(at, rank=draw.choice(list(hit)))
    return Fault(
        kind=kind.name,
        at=at,
        ranks=() if is_service else tuple(sorted(draw.sample(list(hit), several))),
        process="coordinator" if is_service else "",
        times=1 if is_service else draw.choice((1, 1, 1, 2)),
        settings={setting.name: _setting(kind, setting.name, draw) for setting in kind.settings},
    )


def _moment(kind: Kind, draw: random.Random) -> Trigger:
    step = draw.randint(2, _LAST_STEP)
    choice = draw.choice(("step", "op", "point"))
    if choice == "op" or kind.on_operation:
        moments = ("before", "after") if kind.in_program else MOMENTS
        moment = "before" if kind.on_operation else draw.choice(moments)
        return Trigger(step=step, op="all_reduce", moment=moment)
    if choice == "point":
        return Trigger(step=step, point=draw.choice(_PER_STEP))
    return Trigger(step=step)


def _setting(kind: Kind, name: str, draw: random.Random) -> Value:
    setting = next(one for one in kind.settings if one.name == name)
    if name == "for":
        return draw.choice((0.05, 0.2, 1.0))
    if setting.form is Form.CHOICE:
        return draw.choice(setting.choices)
    if setting.form is Form.FLAG and name != "store":  # which few jobs have, and none needs for long
        return draw.random() < 0.5
    return setting.default
