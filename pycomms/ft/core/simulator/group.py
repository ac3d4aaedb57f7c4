"""Operations of a group, as its members see them when one of them dies: some may succeed where others fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pycomms.ft.core.messages import Form, MemberId
from pycomms.ft.core.recovery import Plan, plan
from pycomms.ft.core.simulator.checks import ViolationError

if TYPE_CHECKING:
    from pycomms.ft.core.simulator.member import Member
    from pycomms.ft.core.simulator.world import World

ONE_BY_ONE = 64  # in larger groups all members see the end of an operation at the same time
NAMED = 3  # whom an error names at most


class Group:
    """Of an epoch. Operation 0 is the regroup itself."""

    def __init__(self, world: World, form: Form) -> None:
        self.form = form
        self.ranks = {seat.member: rank for rank, seat in enumerate(form.seats)}
        self.hosts = dict.fromkeys(seat.member.host for seat in form.seats)
        self._world = world
        self._arrived: dict[int, dict[Member, bool]] = {}
        self._suspects: tuple[MemberId, ...] | None = None  # not None: it is broken
        self._plan: Plan | None = None
        self.restoring: frozenset[int] = frozenset()
        self.digest: int | None = None  # of the steps up to the plan's base

    @property
    def plan(self) -> Plan:
        if self._plan is None:
            self._plan = plan(self.form.seats)
            self.restoring = frozenset(self._plan.restoring)
            self._world.observer.planned(self.form, self._plan, self._world.positions(self.ranks))
        return self._plan

    def agree_on(self, digest: int) -> None:
        """What those who have the state of the base have behind them."""
        if self.digest is None:
            self.digest = digest
        elif self.digest != digest:
            raise ViolationError(f"epoch {self.form.epoch}: members that have its base differ in their histories")

    def arrive(self, member: Member, operation: int, value: bool = False) -> None:
        """A member has come to its next operation; it will hear of `Member.completed` or `Member.failed`."""
        if self._suspects is not None:
            self._tell_failure([member], operation, self._suspects)
            return
        arrived = self._arrived.setdefault(operation, {})
        arrived[member] = value
        if len(arrived) == 1:
            times = self._world.settings.timeouts
            limit = times.regroup if operation == 0 else times.operation
            self._world.loop.after(limit.total_seconds(), lambda: self._time_out(operation))
        self._complete(operation)

    def gone(self, member: MemberId) -> None:
        """It has died, or has given the group up: nothing of it can succeed any more."""
        rng = self._world.rng
        names = (member,) if member not in self._world.members or rng.random() < 0.5 else ()
        self._break(names)

    def retry(self) -> None:
        """The network may have changed."""
        for operation in list(self._arrived):
            self._complete(operation)

    def _complete(self, operation: int) -> None:
        arrived = self._arrived[operation]
        world = self._world
        if self._suspects is not None or len(arrived) < len(self.ranks):
            return
        if not world.connected(self.hosts) or (len(arrived) > 1 and self._deaf()):
            return
        if operation == 0:
            world.observer.stood(self.form.epoch)
        else:
            world.observer.operated(self.form.epoch)
        result = any(arrived.values())
        del self._arrived[operation]
        if len(arrived) <= ONE_BY_ONE:
            for member in arrived:
                world.loop.after(
                    world.rng.uniform(0.1, 1) * world.settings.operation, self._end_of(member, operation, result)
                )
        else:
            members = list(arrived)
            world.loop.after(world.settings.operation, lambda: self._finish_all(members, operation, result))

    def _end_of(self, member: Member, operation: int, result: bool) -> Callable[[], None]:
        return lambda: self._finish(member, operation, result)

    def _finish_all(self, members: list[Member], operation: int, result: bool) -> None:
        for member in members:
            self._finish(member, operation, result)

    def _fail_all(self, members: list[Member], operation: int, suspects: tuple[MemberId, ...]) -> None:
        for member in members:
            member.failed(self, operation, suspects)

    def _finish(self, member: Member, operation: int, result: bool) -> None:
        if self._suspects is not None and self._world.rng.random() < 0.5:
            member.failed(self, operation, self._suspects)
        else:
            member.completed(self, operation, result)

    def _time_out(self, operation: int) -> None:
        arrived = self._arrived.get(operation)
        if not arrived or self._suspects is not None:
            return
        here = {one.id for one in arrived}
        missing = [member for member in self.ranks if member not in here]
        if missing:
            self._break(missing[:NAMED])
            return
        # All have come, and not all can reach each other: each names some on the other side.
        self._suspects = ()
        deaf = self._deaf()
        for member in list(arrived):
            far = [one for one in self.ranks if not self._world.connected((one.host, member.id.host))]
            self._tell_failure([member], operation, (*far, *self._missed_by(member.id, deaf))[:NAMED])
        self._arrived.clear()

    def _deaf(self) -> list[MemberId]:
        return [member for member in self._world.deaf if member in self.ranks]

    def _missed_by(self, member: MemberId, deaf: list[MemberId]) -> list[MemberId]:
        """Of members that do not hear: they miss the first, the others them, or somebody who waits for them."""
        if member in deaf:
            return list(self.ranks)[:1]
        rng = self._world.rng
        return [one if rng.random() < 0.7 else rng.choice(list(self.ranks)) for one in deaf]

    def _break(self, suspects: Iterable[MemberId]) -> None:
        if self._suspects is not None:
            return
        self._suspects = tuple(suspects)
        for operation, arrived in self._arrived.items():
            self._tell_failure(list(arrived), operation, self._suspects)
        self._arrived.clear()

    def _tell_failure(self, members: list[Member], operation: int, suspects: tuple[MemberId, ...]) -> None:
        world = self._world
        if len(self.ranks) <= ONE_BY_ONE:
            for member in members:
                delay = world.rng.uniform(0.1, 1) * world.settings.detection
                world.loop.after(delay, self._failure_of(member, operation, suspects))
        else:
            world.loop.after(world.settings.detection, lambda: self._fail_all(members, operation, suspects))

    def _failure_of(self, member: Member, operation: int, suspects: tuple[MemberId, ...]) -> Callable[[], None]:
        return lambda: member.failed(self, operation, suspects)
