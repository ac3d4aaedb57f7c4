"""The jobs that recover: one that regroups in place, whatever its backend, and one that torchrun restarts.

A job lives through all trials of its setup; its processes block in a read while another job has its turn. The parent
is the coordinator of all contestants: it knows who is dead, for it killed it, and hands the list of handles to all.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from bench.recovery.processes import END_TIMEOUT_S, Member, Processes, hear_all
from bench.recovery.trials import Section, Stage, stages_between

TRIAL_TIMEOUT_S = 60.0
_MOMENT_S = 0.1  # the kill comes within as much of the loop

Measured = Iterator[tuple[Section, dict[Stage, float]]]


class Job(Protocol):
    def start(self) -> None:
        """Brings all ranks up. Not measured."""

    def recover(self, dice: random.Random) -> Measured:
        """One trial of each section that it knows, in order. Raises JobError, after which the job is to be closed."""

    def close(self) -> None: ...


class InPlace:
    """Survivors and newcomers regroup: the processes stay."""

    def __init__(self, contestant: str, world: int, resident: int, processes: Processes) -> None:
        self._contestant = contestant
        self._world = world
        self._resident = resident
        self._processes = processes
        self._numbers = itertools.count()
        self._uuids = itertools.count(1)
        self._handles: dict[int, str] = {}
        self._members: list[Member] = []  # by rank
        self._port = 0

    def start(self) -> None:
        self._processes.start(
            [
                *(sys.executable, "-m", "bench.recovery.store"),
                *("--socket", str(self._processes.socket), "--job", self._processes.job),
            ]
        )
        (store,) = self._processes.admit(1)
        self._port = hear_all([store], TRIAL_TIMEOUT_S)[0]["port"]
        self._members = self._boot(self._world)
        self._regroup(self._members)

    def recover(self, dice: random.Random) -> Measured:
        killed_ns, survivors = self._kill_one(dice)
        reports = hear_all(survivors, TRIAL_TIMEOUT_S)
        self._learn(survivors, reports)
        raised_ns = max(report["raised_ns"] for report in reports)
        yield Section.KILL, stages_between(Section.KILL, [killed_ns, raised_ns, *self._regroup(survivors)])
        members = [*survivors, *self._boot(1)]
        decided_ns = time.monotonic_ns()
        yield Section.JOIN, stages_between(Section.JOIN, [decided_ns, *self._regroup(members)])
        self._members = members

    def close(self) -> None:
        self._processes.close()

    def _boot(self, count: int) -> list[Member]:
        """New processes that have all but a group, in a random order that does not matter."""
        for _ in range(count):
            self._processes.start(
                [
                    *(sys.executable, "-m", "bench.recovery.member"),
                    *("--socket", str(self._processes.socket), "--job", self._processes.job),
                    *("--contestant", self._contestant, "--number", str(next(self._numbers))),
                    *("--store-port", str(self._port), "--resident", str(self._resident)),
                ]
            )
        booted = self._processes.admit(count)
        self._learn(booted, hear_all(booted, TRIAL_TIMEOUT_S))
        return booted

    def _kill_one(self, dice: random.Random) -> tuple[int, list[Member]]:
        for member in self._members:
            member.say(do="reduce")
        hear_all(self._members, TRIAL_TIMEOUT_S)
        time.sleep(dice.uniform(0.0, _MOMENT_S))
        victim = dice.choice(self._members)
        killed_ns = victim.kill()
        self._processes.forget(victim)
        return killed_ns, [member for member in self._members if member is not victim]

    def _regroup(self, members: Sequence[Member]) -> tuple[int, int, int]:
        """When the last member had been told, had regrouped, and had verified. The list gives the ranks."""
        uuid = next(self._uuids)
        handles = [self._handles[member.number] for member in members]
        for member in members:
            member.say(do="regroup", uuid=uuid, handles=handles)
        reports = hear_all(members, TRIAL_TIMEOUT_S)
        self._learn(members, reports)
        began, regrouped, verified = (
            max(report[name] for report in reports) for name in ("began_ns", "regrouped_ns", "verified_ns")
        )
        return began, regrouped, verified

    def _learn(self, members: Sequence[Member], reports: Sequence[dict[str, str]]) -> None:
        for member, report in zip(members, reports, strict=True):
            self._handles[member.number] = report["handle"]


class Restarted:
    """`torchrun --max-restarts`: all processes end and begin anew, so the world is as large as before."""

    def __init__(self, world: int, processes: Processes, restarts: int) -> None:
        self._world = world
        self._processes = processes
        self._restarts = restarts
        self._members: list[Member] = []

    def start(self) -> None:
        self._processes.start(
            [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *("--nproc-per-node", str(self._world), "--max-restarts", str(self._restarts)),
                *("-m", "bench.recovery.restarted"),
            ]
        )
        self._members = self._processes.admit(self._world)
        hear_all(self._members, TRIAL_TIMEOUT_S)

    def recover(self, dice: random.Random) -> Measured:
        for member in self._members:
            member.say(do="reduce")
        hear_all(self._members, TRIAL_TIMEOUT_S)
        time.sleep(dice.uniform(0.0, _MOMENT_S))
        killed_ns = dice.choice(self._members).kill()
        deadline = time.monotonic() + END_TIMEOUT_S + TRIAL_TIMEOUT_S
        ended_ns = max(member.await_end(deadline) for member in self._members)
        for member in self._members:
            self._processes.forget(member)
        self._members = self._processes.admit(self._world)
        reports = hear_all(self._members, TRIAL_TIMEOUT_S)
        marks = [max(report[name] for report in reports) for name in ("ready_ns", "regrouped_ns", "verified_ns")]
        yield Section.KILL, stages_between(Section.KILL, [killed_ns, ended_ns, *marks])

    def close(self) -> None:
        self._processes.close()
