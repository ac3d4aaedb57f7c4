"""Decides which fault happens now, once for each time that the plan says, and does those that come from outside."""

from __future__ import annotations

import asyncio
import math
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from pycomms.chaos._controller.clocks import Shifted
from pycomms.chaos._controller.desk import Desk, Member
from pycomms.chaos._controller.journal import Journal
from pycomms.chaos._controller.processes import Target
from pycomms.chaos._controller.room import Displaced, Limited
from pycomms.chaos.core.plan import Fault, Plan, sides

Service = Callable[[str], "Target | None"]
"""The process of the coordinator or the agent, at this moment."""
Whereto = Callable[[str], "Path | None"]
"""The folder to which the coordinator or the agent writes; of "": the workers."""


class Injector:
    """For one event loop."""

    def __init__(self, plan: Plan, desk: Desk, journal: Journal, service: Service, whereto: Whereto) -> None:
        self._plan = plan
        self._desk = desk
        self._journal = journal
        self._service = service
        self._whereto = whereto
        self._left = {
            (number, rank): fault.times for number, fault in enumerate(plan.faults) for rank in _who_triggers(fault)
        }
        self._frozen: set[Target] = set()
        self._taken: set[Limited | Displaced | Shifted] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._awaited: list[tuple[int, int, str]] = []  # fault, rank, where
        self._has_begun = False
        self._parted: dict[int, float] = {}  # faults that part two sides, until when

    def welcome(self, member: Member) -> None:
        """Tells a worker which faults wait for it."""
        awaited = [one for one in self._awaited if one[1] == member.rank]
        wanted = [
            [number, _as_told(fault)]
            for number, fault in enumerate(self._plan.faults)
            if fault.at.seconds is None
            and fault.at.start in (None, member.incarnation + 1)
            and self._left.get((number, member.rank), 0) > 0
        ]
        member.say({"welcome": wanted, "steps": self._plan.steps})
        for one in awaited:
            self._awaited.remove(one)
            self._order(one[0], member, where=one[2])
        for number, until in self._parted.items():
            if until > time.monotonic():
                self._part_newcomer(number, self._plan.faults[number], member)

    def begun(self) -> None:
        """The first step of the job, or the first operation: time counts from here."""
        if self._has_begun:
            return
        self._has_begun = True
        for number, fault in enumerate(self._plan.faults):
            if fault.at.seconds is not None:
                self._spawn(self._by_time(number, fault, fault.at.seconds))

    def claimed(self, member: Member, claim: dict[str, Any]) -> None:
        """A worker has come to where a fault waits for it, and stands there until it is answered."""
        number: int = claim["fault"]
        fault = self._plan.faults[number]
        key = (number, member.rank)
        if self._left.get(key, 0) <= 0:
            member.say({"answer": claim["ask"], "yes": False})
            return
        for rank in fault.ranks if fault.of.on_both_sides else [member.rank]:
            self._left[number, rank] -= 1
        where = {"where": claim["where"], "t": claim["t"]}
        own = fault.at.rank is None and not fault.process and not fault.of.on_both_sides
        pids: list[int] | None = None
        if own:
            pids = self._pids_of(fault.settings.get("peers"))
            self._do(number, fault, member, **where)
        else:
            self._do_to_targets(number, fault, **where)
        member.say({"answer": claim["ask"], "yes": own, "again": self._left[key] > 0, "pids": pids})

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        for target in self._frozen:
            target.send(signal.SIGCONT)
        for taken in self._taken:
            taken.end()
        self._taken.clear()

    async def _by_time(self, number: int, fault: Fault, seconds: float) -> None:
        for _ in range(fault.times):
            await asyncio.sleep(seconds)
            self._do_to_targets(number, fault, where=f"after {seconds:g} s")

    def _do_to_targets(self, number: int, fault: Fault, **where: Any) -> None:
        if fault.process:
            target = self._service(fault.process)
            if target is None:
                self._journal.write("not-injected", fault=number, why=f"no process of a {fault.process} was found")
                return
            self._journal.write("fault", fault=number, what=fault.kind, process=fault.process, pid=target.pid, **where)
            self._outside(number, fault, target)
            return
        if fault.of.on_both_sides:
            self._part(number, fault, **where)
            return
        for rank in fault.ranks:
            member = self._desk.of_rank(rank)
            if member is None:  # it is just being started
                self._awaited.append((number, rank, where["where"]))
            else:
                self._order(number, member, **where)

    def _order(self, number: int, member: Member, **where: Any) -> None:
        """To a process that has not asked for it."""
        fault = self._plan.faults[number]
        self._do(number, fault, member, **where)
        if fault.of.inside:
            pids = self._pids_of(fault.settings.get("peers"))
            member.say({"act": [number, {**_as_told(fault), "pids": pids}]})

    def _part(self, number: int, fault: Fault, **where: Any) -> None:
        """Each side is told of the processes of the other one."""
        seconds = float(cast("float", fault.settings["for"]))
        self._parted[number] = time.monotonic() + seconds if seconds else math.inf
        one, other = sides(fault, self._plan.ranks)
        for own, against in ((one, other), (other, one)):
            told = {**_as_told(fault), "pids": self._pids_of(against), "waits": False}
            for member in self._members(own):
                self._do(number, fault, member, **where)
                member.say({"act": [number, told]})

    def _part_newcomer(self, number: int, fault: Fault, member: Member) -> None:
        one, other = sides(fault, self._plan.ranks)
        if member.rank not in (*one, *other):
            return
        against = other if member.rank in one else one
        left = self._parted[number] - time.monotonic()
        told = {**_as_told(fault), "for": left if left < math.inf else 0, "waits": True}
        self._do(number, fault, member, where="as it starts")
        member.say({"act": [number, {**told, "pids": self._pids_of(against)}]})
        for each in self._members(against):
            each.say({"act": [number, {**told, "pids": [member.pid]}]})

    def _do(self, number: int, fault: Fault, member: Member, **where: Any) -> None:
        self._journal.write("fault", fault=number, what=fault.kind, **member.who, **where)
        if not fault.of.inside:
            self._outside(number, fault, member.target)

    def _outside(self, number: int, fault: Fault, target: Target) -> None:
        settings: dict[str, Any] = dict(fault.settings)
        if fault.kind == "kill":
            target.send(signal.Signals[settings["signal"]])
        elif fault.kind == "freeze":
            target.send(signal.SIGSTOP)
            self._frozen.add(target)
            if settings["for"]:
                self._spawn(self._thaw(number, target, settings["for"]))
        elif fault.kind == "starve":
            self._spawn(self._starve(number, target, settings))
        elif fault.kind in ("no-room", "no-folder", "clock"):
            self._take(number, fault, target)

    def _take(self, number: int, fault: Fault, target: Target) -> None:
        try:
            taken = self._taken_from(fault, target)
        except OSError as error:
            self._journal.write("not-injected", fault=number, why=str(error))
            return
        self._taken.add(taken)
        if fault.settings["for"]:
            self._spawn(self._give_back(number, taken, target.pid, float(cast("float", fault.settings["for"]))))

    def _taken_from(self, fault: Fault, target: Target) -> Limited | Displaced | Shifted:
        """Raises OSError."""
        settings: dict[str, Any] = dict(fault.settings)
        if fault.kind == "no-room":
            return Limited(target.pid)
        if fault.kind == "clock":
            by = -settings["by"] if settings["back"] else settings["by"]
            return Shifted(self._desk.door, target.pid, by, whole_host=settings["host"])
        folder = self._whereto(fault.process)
        if folder is None:
            raise FileNotFoundError(f"nobody has said to which folder the {fault.process} writes")
        return Displaced(folder)

    async def _give_back(self, number: int, taken: Limited | Displaced | Shifted, pid: int, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._taken.discard(taken)
        taken.end()
        self._journal.write("over", fault=number, pid=pid)

    async def _thaw(self, number: int, target: Target, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._frozen.discard(target)
        is_there = target.send(signal.SIGCONT)
        self._journal.write("over", fault=number, pid=target.pid, was_there=is_there)

    async def _starve(self, number: int, target: Target, settings: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + (settings["for"] or 1e9)
        share, period = settings["share"], settings["period"]
        self._frozen.add(target)
        while loop.time() < until and target.send(signal.SIGSTOP):
            await asyncio.sleep(period * (1 - share))
            target.send(signal.SIGCONT)
            await asyncio.sleep(period * share)
        self._frozen.discard(target)
        self._journal.write("over", fault=number, pid=target.pid)

    def _pids_of(self, ranks: Any) -> list[int] | None:
        """None: whoever there is."""
        return [member.pid for member in self._members(ranks)] if ranks else None

    def _members(self, ranks: Sequence[int]) -> list[Member]:
        """Those of them that are there."""
        members = [self._desk.of_rank(rank) for rank in ranks]
        return [member for member in members if member is not None]

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _who_triggers(fault: Fault) -> tuple[int, ...]:
    return fault.ranks if fault.at.rank is None else (fault.at.rank,)


def _as_told(fault: Fault) -> dict[str, Any]:
    at = {name: value for name, value in vars(fault.at).items() if value is not None}
    return {"kind": fault.kind, "at": at, **fault.settings}
