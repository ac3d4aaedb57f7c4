"""Logs of runs that never were: a job of which everything is right, to be spoilt in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pycomms.chaos.core import payload
from pycomms.chaos.core.log import Log
from pycomms.chaos.core.parse import parse

ELEMENTS = 8
KILL: dict[str, Any] = {"kind": "kill", "rank": 1, "at": {"step": 3}}


class Job:
    """Three members; at step 3 rank 1 is killed, and comes back at step 5."""

    def __init__(self, plan: dict[str, Any] | None = None, last: int = 6) -> None:
        self.plan: dict[str, Any] = plan if plan is not None else {"ranks": 3, "fault": [KILL]}
        self.events: list[dict[str, Any]] = []
        self._place, self._digest = 0, 0
        self.add(0.0, "begin")
        for rank in range(3):
            self.say(1.0, rank, 0, "worker", world=3)
            self.say(1.5, rank, 0, "point", point="settled", members=[0, 1, 2], reason="joined", step=1)
        for step in range(1, last + 1):
            members = [0, 2] if step in (3, 4) else [0, 1, 2]
            if step == 3:
                self.kill(3.0)
            if step == 5:
                self.say(4.9, 1, 1, "worker", world=3)
                for rank in members:
                    told = {"point": "settled", "members": members, "reason": "slot 1 joined", "step": 5}
                    self.say(4.95, rank, int(rank == 1), "point", **told)
            self.commit(step + 0.5, step, members)
        for rank in range(3):
            self.say(last + 1.0, rank, int(rank == 1), "point", point="done", step=last + 1)
            self.say(last + 1.1, rank, int(rank == 1), "gone")
        for look in range(4 * last):
            for rank in range(3):
                if rank != 1 or look < 6 or look > 16:
                    self.hold(2.0 + look / 4, rank, int(rank == 1 and look > 16))
        self.add(last + 1.2, "end", how="exited", code=0)
        self.add(last + 1.3, "left", processes=[], shared_memory=[])

    def add(self, t: float, kind: str, **fields: Any) -> None:
        self.events.append({"t": t, "kind": kind, **fields})

    def say(self, t: float, rank: int, incarnation: int, kind: str, **fields: Any) -> None:
        self.add(t, kind, pid=100 + rank + 10 * incarnation, rank=rank, incarnation=incarnation, **fields)

    def hold(self, t: float, rank: int, incarnation: int) -> None:
        self.say(t, rank, incarnation, "gauge", memory=200 << 20, descriptors=40, threads=12)

    def kill(self, t: float) -> None:
        self.say(t, 1, 0, "fault", fault=0, what="kill", where="step 3")
        self.say(t + 0.01, 1, 0, "gone")
        for rank in (0, 2):
            reason = "rank 1 (slot 1) ended: signal 9 (SIGKILL)"
            self.say(t + 0.1, rank, 0, "point", point="settled", members=[0, 2], reason=reason, step=3)

    def commit(self, t: float, step: int, members: Sequence[int]) -> None:
        total = payload.total(step, members, ELEMENTS)
        self._digest = payload.fold(self._digest, total)
        for index, rank in enumerate(members):
            self.say(
                t,
                rank,
                int(rank == 1 and step > 4),
                "values",
                step=step,
                head=sum(4**slot for slot in members),
                total=total,
                digest=self._digest,
                elements=ELEMENTS,
                wrong=0,
                samples=[self._place + 2 * index, self._place + 2 * index + 1],
            )
        self._place += 2 * len(members)

    def find(self, kind: str, **fields: Any) -> dict[str, Any]:
        return next(
            one
            for one in self.events
            if one["kind"] == kind and all(one.get(name) == value for name, value in fields.items())
        )

    def log(self, verdict: dict[str, Any] | None = None, output: str = "") -> Log:
        return Log(parse(self.plan), self.events, verdict, output)
