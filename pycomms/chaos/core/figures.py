"""What a run has cost, in numbers: for those who want more than that all has held. Pure functions of the log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pycomms.chaos.core.growth import name_of
from pycomms.chaos.core.log import Log
from pycomms.chaos.core.survival import recovery_time

_WARM_S = 2.0
_CALM_S = 5.0
"""How long after a fault is over all is as if it had not been; and the least that makes a rate."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Attributes:
    recoveries: faults after which a step was taken. median, late, worst: seconds to it; late: the 99th percentile.
    kept: what ranks have taken of steps per second while there were faults, as a share of what they take without; None:
        the run was not long enough without.
    memory: of the processes that were there for longest, of each the first and the last that was seen, in bytes.
    """

    recoveries: int
    median: float
    late: float
    worst: float
    kept: float | None
    memory: dict[str, tuple[int, int]]


def figures(log: Log) -> Figures:
    took = sorted(t for hit in log.hits if (t := recovery_time(log, hit)) is not None)
    return Figures(
        recoveries=len(took),
        median=_quantile(took, 0.5),
        late=_quantile(took, 0.99),
        worst=_quantile(took, 1.0),
        kept=_kept(log),
        memory=_memory(log),
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The least that so many are not above."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else 0.0


def _kept(log: Log) -> float | None:
    times = [one.t for one in log.taken_from(0.0)]
    if not log.hits or not times:
        return None
    first, last = log.hits[0].t, max(_over(log), log.hits[-1].t) + _CALM_S
    calm = [(times[0] + _WARM_S, first), (last, times[-1])]
    calm = [(begin, end) for begin, end in calm if end - begin >= _CALM_S]
    undisturbed = sum(end - begin for begin, end in calm)
    if not calm or last - first < _CALM_S:
        return None
    normal = sum(1 for t in times if any(begin <= t < end for begin, end in calm)) / undisturbed
    if not normal:
        return None
    end = min(last, times[-1])
    # Where no step was taken since the first fault, nothing was kept.
    return sum(1 for t in times if first <= t < last) / (end - first) / normal if end > first else 0.0


def _over(log: Log) -> float:
    return max((one["t"] for one in log.of("over")), default=0.0)


def _memory(log: Log) -> dict[str, tuple[int, int]]:
    """Of each rank and service the process that was watched for longest."""
    lives: dict[int, list[tuple[float, int]]] = {}
    names: dict[int, str] = {}
    for event in log.of("gauge"):
        lives.setdefault(event["pid"], []).append((event["t"], event["memory"]))
        names[event["pid"]] = name_of(event)
    longest: dict[str, int] = {}
    for pid, looks in lives.items():
        who = names[pid].partition(" (")[0]
        best = lives.get(longest.get(who, -1), [])
        if len(looks) > len(best):
            longest[who] = pid
    return {names[pid]: (lives[pid][len(lives[pid]) // 10][1], lives[pid][-1][1]) for pid in longest.values()}
