"""Latency, bandwidth and the host's cost of issuing, of ours and of torch's own backends, in turns within one group of
processes: the figures to look at are the ratios.

`measure` runs on the ranks, `speed` in the parent.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from tests.cuda.issue_cost import cost_us
from tests.multirank._harness import RanksError

from ._contract import agreed
from ._rank import play
from ._report import AreaReport
from ._setting import Deadline, Setting

_KIB, _MIB = 1 << 10, 1 << 20
SIZES = (8, 64 * _KIB, _MIB, 64 * _MIB, 256 * _MIB)
_EMULATED_SIZES = (8, 64 * _KIB, _MIB)
_ITEM = 4  # float32
_ROUNDS = 5
_TURN_S = 0.005  # how long a turn of a backend should take
_MOST_CALLS = 200
_ISSUED = 100  # calls; fewer than what a stream takes before it makes the host wait
_GRACE_S = 10.0

OURS = "ours"
Groups = dict[str, Any]


def speed(setting: Setting, report: AreaReport, deadline: Deadline) -> None:
    sizes = _EMULATED_SIZES if setting.emulated else SIZES
    seconds = deadline.left()
    try:
        found: list[tuple[list[dict[str, Any]], list[str], list[str]]] = setting.ranks.run(
            play,
            measure,
            False,
            sizes,
            2 if setting.quick else _ROUNDS,
            seconds,
            world=setting.worlds[-1],
            init=False,
            timeout=seconds + _GRACE_S,
        )
    except RanksError as error:
        report.failed.append(f"{setting.worlds[-1]} ranks: {error}")
        return
    report.figures, report.skipped, report.out_of_time = found[0]
    report.passed = len(report.figures)


def measure(
    rank: int, world: int, sizes: tuple[int, ...], rounds: int, seconds: float
) -> tuple[list[dict[str, Any]], list[str], list[str]]:
    """Figures, what was left out, and what there was no time for."""
    deadline = time.monotonic() + seconds
    groups, missing = _groups(world)
    figures = [_issue(groups, is_async, rounds) for is_async in (False, True)]
    not_reached: list[str] = []
    for size in sizes:
        for what, call in _operations(world, size):
            if agreed(time.monotonic() < deadline):
                figures.append(_compare(groups, what, size, call, rounds))
            else:
                not_reached.append(f"{what} of {size} bytes")
    return figures, missing, not_reached


def _groups(world: int) -> tuple[Groups, list[str]]:
    import pycomms

    everyone = list(range(world))
    groups: Groups = {OURS: dist.group.WORLD, "nccl": dist.new_group(everyone, backend="nccl")}
    try:
        groups["builtin_nccl2"] = dist.new_group(everyone, backend=pycomms.builtin_nccl2())
    except LookupError as error:
        return groups, [str(error)]
    return groups, []


def _operations(world: int, size: int) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """`size` is that of the larger tensor: an element from each rank at least."""
    part = max(1, size // _ITEM // world)
    whole = torch.ones(part * world, device="cuda")
    piece = torch.ones(part, device="cuda")
    same = torch.zeros(max(1, size // _ITEM), device="cuda")  # zeros: it is summed up many times
    yield "all_reduce", lambda group: dist.all_reduce(same, group=group)
    yield "all_gather", lambda group: dist.all_gather_into_tensor(whole, piece, group=group)
    yield "reduce_scatter", lambda group: dist.reduce_scatter_tensor(piece, whole, group=group)


def _compare(groups: Groups, what: str, size: int, call: Callable[[Any], Any], rounds: int) -> dict[str, Any]:
    calls = 1
    for group in groups.values():
        _time(call, group, 2)  # connects
        pilot = _time(call, group, 3)
        calls = max(calls, min(_MOST_CALLS, int(_TURN_S * 1e6 / max(pilot, 0.1))))
    calls = int(agreed(calls))
    times: dict[str, list[float]] = {name: [] for name in groups}
    for number in range(rounds):
        for name in _in_turn(list(groups), number):
            times[name].append(_time(call, groups[name], calls))
    return {**_figure(what, size, times), "gb_per_s": size / statistics.median(times[OURS]) / 1000}


def _time(call: Callable[[Any], Any], group: Any, calls: int) -> float:
    """µs on the device for a call."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        call(group)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000 / calls


def _issue(groups: Groups, is_async: bool, rounds: int) -> dict[str, Any]:
    tensor = torch.zeros(16, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in groups}
    for number in range(-1, rounds):
        for name in _in_turn(list(groups), number):
            torch.cuda.synchronize()
            group = groups[name]
            cost = cost_us(partial(dist.all_reduce, tensor, group=group, async_op=is_async), _ISSUED)
            if number >= 0:  # the first round connects
                times[name].append(cost)
    torch.cuda.synchronize()
    return _figure(f"host, {'async' if is_async else 'sync'} all_reduce", 64, times)


def _in_turn(names: list[str], number: int) -> list[str]:
    """Another one begins in each round."""
    first = number % len(names)
    return names[first:] + names[:first]


def _figure(what: str, size: int, times: dict[str, list[float]]) -> dict[str, Any]:
    median = {name: statistics.median(values) for name, values in times.items()}
    return {
        "what": what,
        "bytes": size,
        "ours_us": median.pop(OURS),
        "theirs_us": median,
        "least_us": {name: min(values) for name, values in times.items()},
        "rounds": len(times[OURS]),
    }
