"""Whether a process holds more and more while the job gets over its faults. Pure functions of the log."""

from __future__ import annotations

from collections.abc import Sequence

from pycomms.chaos.core.finding import Finding, judged, unchecked
from pycomms.chaos.core.log import Event, Log

_LOOKS = 6
"""Fewer say nothing of growth."""
_SLACK = {"memory": 64 << 20, "descriptors": 8, "threads": 8}
"""By what a process may hold more at the end than at the beginning: what is made when it is first needed."""
_SHARE = 0.05


def growth(log: Log) -> Finding:
    """The least that a process has held in the last third of its life is no more than the most in the first third."""
    lives = _lives(log)
    if not lives:
        return unchecked("growth", "nobody has lived for long enough")
    problems = []
    for looks in lives:
        early, late = _thirds(looks)
        for what, slack in _SLACK.items():
            before, after = max(one[what] for one in early), min(one[what] for one in late)
            if after > before + max(slack, _SHARE * before):
                problems.append(
                    f"{name_of(looks[0])} had {_amount(what, before)} at most until {early[-1]['t']:.0f} s, and "
                    f"{_amount(what, after)} at least from {late[0]['t']:.0f} s on"
                )
    longest = max(looks[-1]["t"] - looks[0]["t"] for looks in lives)
    return judged(
        "growth", f"{len(lives)} processes, watched for up to {longest:.0f} s, hold no more than before", problems
    )


def _lives(log: Log) -> list[list[Event]]:
    """Of each process, from the first step of the job on: before, it only begins to be what it is."""
    first = next((one.t for one in log.taken_from(0.0)), None)
    if first is None:
        return []
    by_pid: dict[int, list[Event]] = {}
    for event in log.of("gauge"):
        if event["t"] > first:
            by_pid.setdefault(event["pid"], []).append(event)
    return [looks for looks in by_pid.values() if len(looks) >= _LOOKS]


def _thirds(looks: Sequence[Event]) -> tuple[Sequence[Event], Sequence[Event]]:
    third = len(looks) // 3
    return looks[:third], looks[-third:]


def name_of(event: Event) -> str:
    who = event["process"] if event["rank"] < 0 else f"rank {event['rank']}"
    return f"{who} (pid {event['pid']})"


def _amount(what: str, number: int) -> str:
    return f"{number / 2**20:.0f} MiB" if what == "memory" else f"{number} {what}"
