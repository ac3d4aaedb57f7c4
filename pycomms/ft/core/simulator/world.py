"""The whole simulated job, and what it is struck by."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from functools import partial

from pycomms.ft.core.messages import EpochId, Event, Form, MemberId, Position, Refused, Standing, Verdict
from pycomms.ft.core.phases import Phase
from pycomms.ft.core.rule import Outgoing, Rule
from pycomms.ft.core.simulator.checks import Observer, ViolationError
from pycomms.ft.core.simulator.coordinator import Coordinator
from pycomms.ft.core.simulator.faults import Fault, Kind
from pycomms.ft.core.simulator.group import Group
from pycomms.ft.core.simulator.host import Host
from pycomms.ft.core.simulator.loop import Loop
from pycomms.ft.core.simulator.member import Member
from pycomms.ft.core.simulator.settings import Settings
from pycomms.ft.core.step import Stage

GROUPS_KEPT = 8
CHECKPOINTS = 0.05  # of commits


class World:
    def __init__(self, settings: Settings, seed: int, faults: Iterable[Fault]) -> None:
        self.settings = settings
        self.rng = random.Random(f"{seed} events")
        self.loop = Loop()
        self.rule = Rule(
            min_ranks=settings.min_ranks,
            max_ranks=settings.members,
            expected=settings.members,
            timeouts=settings.timeouts,
        )
        self.observer = Observer(settings.min_ranks)
        self.members: dict[MemberId, Member] = {}
        self.hosts: dict[str, Host] = {}
        self.is_over = False
        self.ended = ""
        self.events: Counter[str] = Counter()
        self.notices: Counter[str] = Counter()
        self._groups: dict[EpochId, Group] = {}
        self._checkpoints: dict[int, int] = {0: 0}
        self.deaf: set[MemberId] = set()  # they do not hear other members
        self._sides: dict[str, int] = {}  # hosts that do not reach those on other sides
        self._nonces = 0
        self._boot = 1000
        self._reached: Counter[Stage] = Counter()
        self._at_stage: list[Fault] = []
        self.coordinators = [self._new_coordinator([])]
        for index in range(settings.hosts):
            first = index * settings.ranks_per_host
            last = min(first + settings.ranks_per_host, settings.members)
            host = Host(self, f"host{index}", range(first, last))
            host.coordinator = self.coordinator
            self.hosts[host.name] = host
            self.loop.after(self.rng.uniform(0, 0.01), host.start)
        for fault in faults:
            if fault.kind is Kind.KILL_AT:
                self._at_stage.append(fault)
            else:
                self.loop.at(fault.at, partial(self._strike, fault))

    @property
    def coordinator(self) -> Coordinator:
        """The one that came last."""
        return self.coordinators[-1]

    # What members, hosts and groups ask for.

    def fresh_nonce(self) -> str:
        self._nonces += 1
        return f"n{self._nonces}"

    def first_state(self) -> tuple[Position | None, int]:
        """Nothing, or a checkpoint: perhaps of a step that only dead members have committed."""
        if len(self._checkpoints) == 1 or self.rng.random() < 0.5:
            return None, 0
        committed = max(self._checkpoints)
        return Position(committed=committed, standing=Standing.LOADED), self._checkpoints[committed]

    def group_of(self, form: Form) -> Group:
        group = self._groups.get(form.epoch)
        if group is None:
            group = self._groups[form.epoch] = Group(self, form)
            if len(self._groups) > GROUPS_KEPT:
                del self._groups[next(iter(self._groups))]
        elif group.form.seats is not form.seats and group.form.seats != form.seats:
            raise ViolationError(f"epoch {form.epoch} was told to members in two ways")
        return group

    def connected(self, hosts: Iterable[str]) -> bool:
        if not self._sides:
            return True
        return len({self._sides.get(host, 0) for host in hosts}) <= 1

    def positions(self, ranks: Iterable[MemberId]) -> dict[MemberId, tuple[int, bool]]:
        living = ((member, self.members.get(member)) for member in ranks)
        return {
            member: (record.now.position.committed, record.now.position.standing is Standing.TRAINED)
            for member, record in living
            if record is not None
        }

    def took(self, member: Member, epoch: EpochId, step: int) -> None:
        self.observer.took(epoch, step, member.digest)
        if self.rng.random() < CHECKPOINTS:
            self._checkpoints.setdefault(step, member.digest)

    def reached(self, member: Member) -> None:
        stage = member.now.stage
        self._reached[stage] += 1
        for fault in self._at_stage:
            if fault.stage == stage.value and fault.count == self._reached[stage]:
                self.loop.after(0.0, lambda: self.kill(member.id, "signal 9"))

    def refused(self, member: Member, notice: Refused) -> None:
        if notice.verdict is Verdict.ENDED:
            self.ended = notice.reason
            self.bury(member.id)
            self._host_of(member.id).members.pop(member.id, None)
        else:
            self.kill(member.id, f"refused: {notice.reason}")

    def left(self, member: Member) -> None:
        self.bury(member.id)
        self._host_of(member.id).members.pop(member.id, None)

    def kill(self, member: MemberId, how: str) -> None:
        if member in self.members:
            self.bury(member)
            self._host_of(member).lose(member, how)

    def bury(self, member: MemberId) -> None:
        record = self.members.pop(member, None)
        if record is None:
            return
        record.alive = False
        for group in (record.group, record.trying):
            if group is not None:
                group.gone(member)

    def count_event(self, event: Event) -> None:
        self.events[type(event).__name__] += 1

    def count_notices(self, out: list[Outgoing]) -> None:
        for one in out:
            self.notices[type(one.notice).__name__] += 1

    def is_well(self) -> bool:
        """All who live train together, or the job is over."""
        quorum = self.coordinator.quorum
        phase = quorum.view().phase
        if phase is Phase.ENDED or (self.observer.done and not self.members):
            return not self.members
        alive = [member for host in self.hosts.values() for member in host.members.values()]
        if phase is not Phase.STABLE or not alive or len(alive) < self.settings.members:
            return False
        training = (Stage.COMPUTING, Stage.REDUCED, Stage.VOTED)
        return all(one.now.stage in training and one.group is alive[0].group for one in alive)

    def heal(self) -> None:
        """Faults that last end."""
        self._at_stage.clear()
        self._sides.clear()
        self.deaf.clear()
        for host in self.hosts.values():
            host.cuts = 0
            host.boot()
        for member in list(self.members.values()):
            member.slowness = 1.0
            member.wake()
        self._retry()
        if not self.coordinator.is_up:
            self._restart(self.coordinator.log)

    # Faults.

    def _strike(self, fault: Fault) -> None:
        hosts = self._hosts_of(fault.slots)
        if fault.kind is Kind.KILL:
            for member in self._members_of(fault.slots):
                self.kill(member.id, "signal 9")
        elif fault.kind is Kind.HANG:
            for member in self._members_of(fault.slots):
                member.hang()
                if fault.seconds:
                    self.loop.after(fault.seconds, member.wake)
        elif fault.kind is Kind.SLOW:
            for member in self._members_of(fault.slots):
                member.slowness = self.rng.choice((3.0, 10.0))
        elif fault.kind is Kind.DEAF:
            deaf = [member.id for member in self._members_of(fault.slots)]
            self.deaf.update(deaf)
            if fault.seconds:
                self.loop.after(fault.seconds, lambda: self._let_hear(deaf))
        elif fault.kind is Kind.CRASH:
            for host in hosts:
                if host.is_up:
                    host.crash()
                    self.loop.after(fault.seconds + 0.05, host.boot)
        elif fault.kind is Kind.DROP:
            for host in hosts:
                host.disconnect(self.rng.choice((None, 0.0, 0.01)))
        elif fault.kind is Kind.RESTART:
            self._stop_coordinator(fault.seconds, self.coordinator.log)
        elif fault.kind is Kind.FORGET:
            self._stop_coordinator(fault.seconds, [])
        elif fault.kind is Kind.SECOND:
            self._take_over(hosts, fault.seconds)
        elif fault.kind is Kind.MOVE:
            self._move(hosts, fault.seconds)
        else:
            self._cut(fault, hosts)

    def _cut(self, fault: Fault, hosts: list[Host]) -> None:
        if fault.kind in (Kind.CUT_COORDINATOR, Kind.ISOLATE):
            for host in hosts:
                host.cuts += 1
                host.disconnect(self.rng.choice((None, 0.01)))
                self.loop.after(fault.seconds, host.mend_cut)
        if fault.kind in (Kind.CUT_PEERS, Kind.ISOLATE):
            for host in hosts:
                self._sides[host.name] = 1
            self.loop.after(fault.seconds, lambda: self._join_sides(hosts))

    def _join_sides(self, hosts: list[Host]) -> None:
        for host in hosts:
            self._sides.pop(host.name, None)
        self._retry()

    def _let_hear(self, members: Iterable[MemberId]) -> None:
        self.deaf.difference_update(members)
        self._retry()

    def _retry(self) -> None:
        for group in self._groups.values():
            group.retry()

    def _stop_coordinator(self, seconds: float, log: list[EpochId]) -> None:
        if len(self.coordinators) > 1 or not self.coordinator.is_up:
            return
        self.coordinator.stop()
        self.loop.after(seconds + 0.01, lambda: self._restart(log))

    def _restart(self, log: list[EpochId]) -> None:
        if self.coordinator.is_up:
            return
        self.coordinators = [self._new_coordinator(log)]
        self._point(self.hosts.values())

    def _new_coordinator(self, log: list[EpochId]) -> Coordinator:
        self._boot += 1
        return Coordinator(self, log, self._boot)

    def _take_over(self, hosts: list[Host], seconds: float) -> None:
        """By somebody who takes the first for dead, for as long as that lives."""
        if len(self.coordinators) > 1 or not self.coordinator.is_up:
            return
        first = self.coordinator
        self.coordinators.append(self._new_coordinator([]))
        self._point(hosts)
        self.loop.after(max(seconds, 0.5), lambda: self._retire(first))

    def _move(self, hosts: list[Host], seconds: float) -> None:
        """They do not reach the first, which may be gone with its host, or train on with the others."""
        if len(self.coordinators) > 1 or not self.coordinator.is_up:
            return
        first, log = self.coordinator, self.coordinator.log
        if self.rng.random() < 0.4:
            first.stop()
            hosts, log = list(self.hosts.values()), self.rng.choice((log, []))
        second = self._new_coordinator([])
        self.coordinators.append(second)
        for host in hosts:
            self._point_soon(host, second)
        self.loop.after(max(seconds, 0.1), lambda: self._move_back(first, log, second))

    def _move_back(self, first: Coordinator, log: list[EpochId], second: Coordinator) -> None:
        """The first one to come back has heard a later boot than its: it begins again, with one that is later still."""
        if self.coordinators != [first, second]:
            return
        with_first = [host for host in self.hosts.values() if host.coordinator is first]
        if first.is_up:
            first.stop()
        again = self._new_coordinator(log)
        self.coordinators = [second, again]
        for host in with_first:
            self._direct(host, again)
        for host in self.hosts.values():
            self._point_soon(host, again)
        self.loop.after(1.0, lambda: self._retire(second))

    def _point_soon(self, host: Host, coordinator: Coordinator) -> None:
        def point() -> None:
            if coordinator in self.coordinators and coordinator is self.coordinator:
                self._direct(host, coordinator)

        self.loop.after(self.rng.uniform(0, 0.6), point)

    def _direct(self, host: Host, coordinator: Coordinator) -> None:
        if host.coordinator is not coordinator:
            host.disconnect(self.rng.choice((None, 0.01)))
            host.coordinator = coordinator
            host.connect()

    def _retire(self, coordinator: Coordinator) -> None:
        if coordinator in self.coordinators and len(self.coordinators) > 1:
            coordinator.stop()
            self.coordinators.remove(coordinator)
            self._point(self.hosts.values())

    def _point(self, hosts: Iterable[Host]) -> None:
        for host in hosts:
            if host.coordinator is not self.coordinator:
                host.disconnect(0.01)
                host.coordinator = self.coordinator
                host.connect()

    def _hosts_of(self, slots: Iterable[int]) -> list[Host]:
        names = dict.fromkeys(f"host{slot // self.settings.ranks_per_host}" for slot in slots)
        return [self.hosts[name] for name in names]

    def _host_of(self, member: MemberId) -> Host:
        return self.hosts[member.host]

    def _members_of(self, slots: tuple[int, ...]) -> list[Member]:
        wanted = set(slots)
        return [member for host in self._hosts_of(slots) for member in host.members.values() if member.slot in wanted]
