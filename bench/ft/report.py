"""The tables of one run or more. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bench.ft.log import Trial

_TIMES: Sequence[tuple[str, Callable[[Trial], float]]] = (
    ("to next step", lambda trial: trial.to_next_step),
    ("rejoin", lambda trial: trial.to_rejoin),
    ("gap at rejoin", lambda trial: trial.gap),
    ("to full strength", lambda trial: trial.to_full_strength),
)


def render(documents: Iterable[Mapping[str, Any]]) -> list[str]:
    by_setup: dict[str, dict[str, list[Trial]]] = {}
    for document in documents:
        given = document["arguments"]
        setup = f"{given['workers']} workers, steps of {given['step_ms']:g} ms ({given['compute']})"
        setup += f", {given['megabytes']:g} MB of parameters"
        for raw in document["trials"]:
            trial = Trial(**raw)
            by_setup.setdefault(setup, {}).setdefault(trial.contestant, []).append(trial)
    lines: list[str] = []
    for setup, trials in by_setup.items():
        lines += ["", f"{setup}: median / 99th percentile / worst, ms", *_table(trials)]
    return lines


def _table(by_contestant: Mapping[str, Sequence[Trial]]) -> list[str]:
    body = [["contestant", "trials", *(name for name, _ in _TIMES), "lost steps", "restored", "died"]]
    failures: list[str] = []
    for contestant, trials in by_contestant.items():
        good = [trial for trial in trials if not trial.failure]
        failures += [f"failed: {contestant}: {trial.failure}" for trial in trials if trial.failure]
        count = str(len(trials)) if len(good) == len(trials) else f"{len(good)} of {len(trials)}"
        times = [figure([time(trial) for trial in good]) for _, time in _TIMES]
        most = [str(max((number(trial) for trial in good), default="-")) for number in _NUMBERS]
        body.append([contestant, count, *times, *most])
    widths = [max(len(line[column]) for line in body) for column in range(len(body[0]))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in body]
    return [*table, *sorted(set(failures))]


_NUMBERS: Sequence[Callable[[Trial], Any]] = (
    lambda trial: trial.lost,
    lambda trial: trial.restored,
    lambda trial: trial.died,
)


def figure(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    ordered = sorted(seconds)
    shown = (statistics.median(ordered), percentile(ordered, 0.99), ordered[-1])
    return " / ".join(f"{1e3 * one:,.1f}" if one < 0.1 else f"{1e3 * one:,.0f}" for one in shown)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Between the two nearest."""
    at = share * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])
