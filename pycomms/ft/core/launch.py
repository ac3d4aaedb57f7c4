"""How the hosts of a job start their workers together: who is in, with which ranks, and when all start again.

Each host tells its whole state whenever it changes, and gets the job's. So whoever keeps the job's state can be
replaced by one that knows nothing. A round is one start of all workers. A job whose workers use pycomms.ft needs a
second one only when it cannot be saved otherwise; in any other job one dead worker ends the round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum


class Stand(Enum):
    """Of a host."""

    READY = "ready"  # no worker lives; it can start the round
    RUNNING = "running"
    DONE = "done"  # its workers have ended well
    FAILED = "failed"  # the job cannot go on, it says
    LEFT = "left"  # it was told to end


class Phase(Enum):
    """Of the job."""

    GATHERING = "gathering"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What the command line says of the job; the same on all hosts.

    Attributes:
        name: of the job; empty: whoever keeps its state names it.
        fewest, most: hosts.
        max_restarts: rounds after the first, as far as a failure is their reason.
        join: to wait for the fewest hosts.
        last_call: to wait for more when those are there.
    """

    name: str
    fewest: int
    most: int
    max_restarts: int
    join: timedelta
    last_call: timedelta


@dataclass(frozen=True, kw_only=True)
class Place:
    """A host's ranks: ``slots`` of them from ``first_rank`` on."""

    host: str
    first_rank: int
    slots: int


@dataclass(frozen=True, kw_only=True)
class JobState:
    """What every host is told.

    Attributes:
        sessions: a worker of this round uses pycomms.ft.
        training: such a worker lives and is in the membership.
        finished: such a worker has ended because the training is over.
    """

    name: str
    round: int = 0
    phase: Phase = Phase.GATHERING
    places: tuple[Place, ...] = ()
    master_addr: str = ""
    master_port: int = 0
    restarts: int = 0
    sessions: bool = False
    training: bool = False
    finished: bool = False
    reason: str = ""

    @property
    def world_size(self) -> int:
        return max((place.first_rank + place.slots for place in self.places), default=0)

    def place_of(self, host: str) -> Place:
        """Raises KeyError: the host is not in."""
        for place in self.places:
            if place.host == host:
                return place
        raise KeyError(host)

    def has(self, host: str) -> bool:
        return any(place.host == host for place in self.places)


@dataclass(frozen=True, kw_only=True)
class HostReport:
    """A host's whole state.

    Attributes:
        node_rank: None: as it comes.
        address, port: where its first worker would open torch's store; a port that nobody uses now.
        round: the one whose workers it has; READY: the one that it can start.
        again: why all workers of the job have to be started again; empty: they need not.
        known: the job as it was told to this host; for a keeper of the state that knows nothing.
    """

    host: str
    slots: int
    rule: Rule
    node_rank: int | None = None
    address: str = ""
    port: int = 0
    round: int = 0
    stand: Stand = Stand.READY
    again: str = ""
    sessions: bool = False
    training: bool = False
    finished: bool = False
    reason: str = ""
    known: JobState | None = None


class Launch:
    """The job's state as far as starting is concerned. No clock, no I/O: every call says when it is, in seconds."""

    def __init__(self, name: str, *, stands_by: bool = False) -> None:
        """name: of the job, where the hosts give it none. stands_by: it is begun elsewhere, and taken over here."""
        self.job = JobState(name=name)
        self._may_begin = not stands_by
        self._expected: set[str] = set()  # hosts of the job as it was learned, which have not reported here yet
        self._rule: Rule | None = None
        self._reports: dict[str, HostReport] = {}  # in the order in which they came
        self._since: float | None = None  # gathering, with at least one host
        self._enough: float | None = None

    def report(self, now: float, report: HostReport) -> bool:
        """Whether the job's state has changed."""
        before = self.job
        if self._rule is None:
            self._rule = report.rule
            self.job = replace(self.job, name=report.rule.name or self.job.name)
        if report.rule != self._rule:
            return self._fail(
                f"host {report.host} was started with {report.rule}, others with {self._rule}: "
                "--nnodes, --max-restarts, --rdzv-id and --rdzv-conf have to be the same on all hosts"
            )
        self._learn(report.known)
        self._expected.discard(report.host)
        self._reports[report.host] = replace(report, known=None)
        self._step(now)
        return self.job != before

    def lost(self, now: float, host: str) -> bool:
        """The host has been silent for too long, or has ended."""
        before = self.job
        known = self._reports.pop(host, None) is not None or host in self._expected
        self._expected.discard(host)
        if known and self.job.phase is Phase.RUNNING and self.job.has(host) and not self.job.sessions:
            self._again(now, f"host {host} is lost")
        self._step(now)
        return self.job != before

    @property
    def expected(self) -> frozenset[str]:
        """Hosts that were told of and have not reported: they may be on their way here."""
        return frozenset(self._expected)

    def tick(self, now: float) -> bool:
        """Time has passed."""
        before = self.job
        self._step(now)
        return self.job != before

    def _learn(self, known: JobState | None) -> None:
        """A keeper of the state that has come back takes over what the hosts know."""
        if known is not None and (known.round, bool(known.places)) > (self.job.round, bool(self.job.places)):
            self.job = known
            self._may_begin = True
            self._expected = {place.host for place in known.places if place.host not in self._reports}

    def _step(self, now: float) -> None:
        if self.job.phase is Phase.GATHERING:
            self._gather(now)
        elif self.job.phase is Phase.RUNNING:
            self._run(now)

    def _gather(self, now: float) -> None:
        rule = self._rule
        ready = [one for one in self._reports.values() if one.stand is Stand.READY and one.round == self.job.round]
        if rule is None or not self._reports:
            return
        self._since = now if self._since is None else self._since
        if not self._may_begin:
            if now - self._since > rule.join.total_seconds():
                self._fail(f"no host has told of the job within {rule.join.total_seconds():g} s: it was never begun")
            return
        if len(ready) < rule.fewest:
            self._enough = None
            if now - self._since > rule.join.total_seconds():
                self._fail(
                    f"{len(ready)} hosts were ready within {rule.join.total_seconds():g} s, expected {rule.fewest}: "
                    f"{', '.join(one.host for one in ready) or 'none'}"
                )
            return
        self._enough = now if self._enough is None else self._enough
        everybody = len(ready) >= rule.most or (self.job.round > 0 and len(ready) == len(self._staying()))
        if everybody or now - self._enough >= rule.last_call.total_seconds():
            self._form(ready[: rule.most])

    def _staying(self) -> list[HostReport]:
        return [one for one in self._reports.values() if one.stand is not Stand.LEFT]

    def _form(self, ready: list[HostReport]) -> None:
        if all(one.node_rank is not None for one in ready):
            ready.sort(key=lambda one: one.node_rank or 0)
            numbers = [one.node_rank for one in ready]
            if len(set(numbers)) < len(numbers):
                twice = next(number for number in numbers if numbers.count(number) > 1)
                hosts = [one.host for one in ready if one.node_rank == twice]
                self._fail(f"--node-rank {twice} was given on several hosts: {', '.join(hosts)}")
                return
        places: list[Place] = []
        for one in ready:
            first = places[-1].first_rank + places[-1].slots if places else 0
            places.append(Place(host=one.host, first_rank=first, slots=one.slots))
        self._since = self._enough = None
        self.job = replace(
            self.job,
            phase=Phase.RUNNING,
            places=tuple(places),
            master_addr=ready[0].address,
            master_port=ready[0].port,
        )

    def _run(self, now: float) -> None:
        of_round = [self._reports.get(place.host) for place in self.job.places]
        present = [one for one in of_round if one is not None and one.round == self.job.round]
        self.job = replace(
            self.job,
            sessions=self.job.sessions or any(one.sessions for one in present),
            training=any(one.training for one in present),
            finished=self.job.finished or any(one.finished for one in present),
        )
        failed = next((one for one in present if one.stand is Stand.FAILED), None)
        again = next((one for one in present if one.again), None)
        left = next((one for one in present if one.stand is Stand.LEFT), None)
        if failed is not None:
            self._fail(failed.reason)
        elif self._all_done(of_round):
            self.job = replace(self.job, phase=Phase.DONE)
        elif again is not None:
            self._again(now, again.again)
        elif left is not None and not self.job.sessions:
            self._again(now, f"host {left.host} has left")
        else:
            self._admit(now)

    def _all_done(self, of_round: list[HostReport | None]) -> bool:
        """A host that is gone does not hold up the end when others have finished the training."""
        here = [one for one in of_round if one is not None and one.stand is not Stand.LEFT]
        done = bool(here) and all(one.stand is Stand.DONE for one in here)
        return done and (len(here) == len(of_round) or self.job.finished)

    def _admit(self, now: float) -> None:
        """Hosts that have come later: into an empty place, or beside the others."""
        assert self._rule is not None
        waiting = [one for one in self._reports.values() if one.stand is Stand.READY and not self.job.has(one.host)]
        for one in waiting:
            empty = next(
                (
                    place
                    for place in self.job.places
                    if place.slots == one.slots
                    and place.host not in self._expected
                    and (place.host not in self._reports or self._reports[place.host].stand is Stand.LEFT)
                ),
                None,
            )
            if not self.job.sessions:
                if empty is not None or len(self.job.places) < self._rule.most:
                    self._again(now, f"host {one.host} has come", counted=False)
                    return
            elif empty is not None:
                taken = replace(empty, host=one.host)
                self.job = replace(
                    self.job, places=tuple(taken if place is empty else place for place in self.job.places)
                )
            elif len(self.job.places) < self._rule.most:
                new = Place(host=one.host, first_rank=self.job.world_size, slots=one.slots)
                self.job = replace(self.job, places=(*self.job.places, new))

    def _again(self, now: float, reason: str, *, counted: bool = True) -> None:
        assert self._rule is not None
        if counted and self.job.restarts >= self._rule.max_restarts:
            self._fail(f"{reason}; the workers have been started again {self.job.restarts} times (--max-restarts)")
            return
        self._since, self._enough = now, None
        self.job = JobState(
            name=self.job.name,
            round=self.job.round + 1,
            restarts=self.job.restarts + counted,
            reason=reason,
        )

    def _fail(self, reason: str) -> bool:
        if self.job.phase in (Phase.DONE, Phase.FAILED):
            return False
        self.job = replace(self.job, phase=Phase.FAILED, reason=reason)
        return True
