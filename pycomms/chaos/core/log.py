"""What a run has written down, put in order for those who judge it. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from pycomms.chaos.core.kinds import Effect
from pycomms.chaos.core.plan import Plan

Event = Mapping[str, Any]


@dataclass(frozen=True)
class Process:
    """A worker of the job. went, done: when it has ended, and when it has come to the end of the training; or None."""

    pid: int
    rank: int
    incarnation: int
    came: float
    went: float | None
    done: float | None

    def lives_at(self, t: float) -> bool:
        return self.came <= t and (self.went is None or self.went >= t)


@dataclass(frozen=True)
class Commit:
    t: float
    step: int
    pid: int
    rank: int


@dataclass(frozen=True)
class Hit:
    """A fault that has happened. rank: -1: the process is no worker."""

    t: float
    fault: int
    rank: int
    pid: int
    where: str


@dataclass(frozen=True)
class Settling:
    """A member that trains on after members have changed, or begins."""

    t: float
    pid: int
    rank: int
    members: tuple[int, ...]
    reason: str
    is_first: bool


class Log:
    """verdict: of the flight recorder: `verdict`, `root_ranks` of all findings, `text`; None: there are no records.
    output: what the job has printed.
    """

    def __init__(
        self, plan: Plan, events: Sequence[Event], verdict: Mapping[str, Any] | None = None, output: str = ""
    ) -> None:
        self.plan = plan
        self.events = sorted(events, key=lambda event: event["t"])
        self.verdict = verdict or {}
        self.output = output

    def of(self, kind: str) -> list[Event]:
        return self._by_kind.get(kind, [])

    @cached_property
    def _by_kind(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        for event in self.events:
            found.setdefault(event["kind"], []).append(event)
        return found

    @cached_property
    def is_session(self) -> bool:
        return any(event["point"] == "settled" for event in self.of("point"))

    @cached_property
    def end(self) -> Event | None:
        return next(iter(self.of("end")), None)

    @cached_property
    def processes(self) -> list[Process]:
        went = {event["pid"]: event["t"] for event in self.of("gone")}
        done = {event["pid"]: event["t"] for event in self.of("finished")}
        done.update({event["pid"]: event["t"] for event in self.of("point") if event["point"] == "done"})
        return [
            Process(one["pid"], one["rank"], one["incarnation"], one["t"], went.get(one["pid"]), done.get(one["pid"]))
            for one in self.of("worker")
        ]

    @cached_property
    def ended_in_order(self) -> set[int]:
        """Of a job that has succeeded and does not say when it is done: the last process of each rank."""
        if self.end is None or self.end["code"] != 0 or any(one.done is not None for one in self.processes):
            return set()
        last = {one.rank: one.pid for one in self.processes}
        return set(last.values())

    @cached_property
    def commits(self) -> list[Commit]:
        """Of each process each step once. A program that says its values has committed what it says them of."""
        found: dict[tuple[int, int], Commit] = {}
        for event in self.events:
            if event["kind"] == "values":
                step = event["step"]
            elif event["kind"] == "point" and event["point"] == "committed":
                step = event["committed"]
            else:
                continue
            key = (event["pid"], step)
            found.setdefault(key, Commit(event["t"], step, event["pid"], event["rank"]))
        return sorted(found.values(), key=lambda one: one.t)

    def taken_from(self, t: float) -> Iterator[Commit]:
        """Steps taken from then on, in order; of a program that does not say what it has taken, those it has begun."""
        first = bisect_left(self._taken, t, key=_time)
        return (self._taken[place] for place in range(first, len(self._taken)))

    @cached_property
    def _taken(self) -> list[Commit]:
        return self.commits or [Commit(one["t"], one["step"], one["pid"], one["rank"]) for one in self.of("step")]

    def last_step(self, pid: int, t: float) -> int:
        """Which this process had taken by then; 0: none."""
        own = self._commits_of.get(pid, [])
        before = bisect_right(own, t, key=_time)
        return max((one.step for one in own[:before]), default=0)

    @cached_property
    def _commits_of(self) -> dict[int, list[Commit]]:
        found: dict[int, list[Commit]] = {}
        for one in self.commits:
            found.setdefault(one.pid, []).append(one)
        return found

    @cached_property
    def last_begun(self) -> dict[int, float]:
        """When each process began its last step."""
        return {one["pid"]: one["t"] for one in self.of("step")}

    @cached_property
    def beginnings(self) -> list[float]:
        """When the job has taken its first step again, because all that was done was lost."""
        found, last = [], 0
        for commit in self.commits:
            if commit.step == 1 and last > 1:
                found.append(commit.t)
                last = 0
            last = max(last, commit.step)
        return found

    @cached_property
    def lives(self) -> list[Log]:
        """The log, cut where the job has begun anew: in each of them every step is a step of its own."""
        if not self.beginnings:
            return [self]
        edges = [float("-inf"), *self.beginnings, float("inf")]
        return [
            Log(self.plan, [one for one in self.events if begin <= one["t"] < end], self.verdict, self.output)
            for begin, end in pairwise(edges)
        ]

    @cached_property
    def hits(self) -> list[Hit]:
        return [
            Hit(one["t"], one["fault"], one.get("rank", -1), one["pid"], one.get("where", ""))
            for one in self.of("fault")
        ]

    @cached_property
    def settlings(self) -> list[Settling]:
        found = []
        seen: set[int] = set()
        for one in self.of("point"):
            if one["point"] == "settled":
                first = one["pid"] not in seen
                seen.add(one["pid"])
                members = tuple(one["members"])
                found.append(Settling(one["t"], one["pid"], one["rank"], members, one["reason"], first))
        return found

    def effect(self, hit: Hit) -> Effect:
        return self.plan.faults[hit.fault].of.effect

    def is_over_at(self, hit: Hit) -> float:
        """When the fault was taken back, or is over by what the plan says; infinity: it stays."""
        later = [one["t"] for one in self.of("over") if one["fault"] == hit.fault and one["t"] >= hit.t]
        seconds = self.plan.faults[hit.fault].settings.get("for")
        lasts = float(seconds) if isinstance(seconds, (int, float)) and seconds > 0 else float("inf")
        return min(later, default=hit.t + lasts)


def _time(commit: Commit) -> float:
    return commit.t
