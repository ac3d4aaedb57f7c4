"""A member: the step protocol, driven by what the network and the group do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pycomms.ft.core.messages import (
    DONE,
    Announce,
    Change,
    EpochId,
    Form,
    Leaving,
    MemberId,
    Notice,
    Position,
    Ready,
    Refused,
    Settled,
)
from pycomms.ft.core.simulator.group import Group
from pycomms.ft.core.step import Do, Happened, Progression, Stage, advance, recover, restored

if TYPE_CHECKING:
    from pycomms.ft.core.simulator.host import Host
    from pycomms.ft.core.simulator.world import World

SEARCHED = 100  # seats that a member looks through for its own; in larger epochs it takes for granted that it is meant


class Member:
    def __init__(self, world: World, host: Host, member: MemberId, slot: int, position: Position, digest: int) -> None:
        self.id = member
        self.slot = slot
        self.now = Progression(position=position)
        self.group: Group | None = None  # the last one that stood
        self.trying: Group | None = None  # the one that is being made
        self.digest = digest  # of all steps that it has committed, each with the epoch that it was voted for in
        self.slowness = 1.0
        self.hung: list[Callable[[], None]] | None = None  # what would have happened
        self.alive = True
        self._world = world
        self._host = host
        self._operation = 0
        self._tried: EpochId | None = None
        self._voted_in: EpochId | None = None
        self._ready: Ready | None = None  # the last, while it stands
        self._change: Change | None = None
        self._later: Form | None = None  # heard while regrouping
        self._turn = 0

    # To the coordinator.

    def announcement(self, *, with_seats: bool = False) -> Announce:
        form = self.group.form if self.group else None
        return Announce(
            member=self.id,
            slot=self.slot,
            pid=1,
            handle=self._handle(),
            position=self.now.position,
            epoch=form.epoch if form else None,
            seats=form.seats if form and with_seats else (),
        )

    def announce(self, *, with_seats: bool = False) -> None:
        """To a coordinator that may not know it, or not what it has said last."""
        self._host.say(self.announcement(with_seats=with_seats))
        if self._ready is not None:
            self._host.say(self._ready)

    def _handle(self) -> str:
        return f"{self.id.nonce}:{self.group.form.epoch.uuid if self.group else -1}"

    # From the coordinator.

    def hear(self, notice: Notice) -> None:
        self._do(lambda: self._hear(notice))

    def _hear(self, notice: Notice) -> None:
        if isinstance(notice, Form):
            self._hear_form(notice)
        elif isinstance(notice, Change):
            self._hear_change(notice)
        elif isinstance(notice, Refused):
            self._world.refused(self, notice)

    def _hear_form(self, form: Form) -> None:
        stage = self.now.stage
        if self._tried is not None and form.epoch <= self._tried:
            self._remind()
        elif stage is Stage.REGROUPING:
            self._later = form
        elif stage is Stage.COMPUTING:
            self._change = Change(epoch=form.epoch, broken=True)
        elif stage is not Stage.STANDING:
            self._fail(())
        elif len(form.seats) < SEARCHED and not self._is_meant(form):
            self._remind()
        else:
            self._regroup(form)

    def _is_meant(self, form: Form) -> bool:
        """Whether the epoch was decided with what this member has said last."""
        position, handle = self.now.position, self._handle()
        return any(
            seat.member == self.id and seat.position == position and seat.handle == handle for seat in form.seats
        )

    def _regroup(self, form: Form) -> None:
        self._advance(Happened.FORM)
        self._tried = form.epoch
        self._ready = self._change = self._later = None
        self.trying = self._world.group_of(form)
        self._operation = 0
        self.trying.arrive(self, 0)

    def _hear_change(self, change: Change) -> None:
        if self.now.stage is Stage.STANDING:
            self._remind()
            return
        group = self.trying if self.now.stage is Stage.REGROUPING else self.group
        if group is None or change.epoch != group.form.epoch or self.now.stage is Stage.DONE:
            return
        self._change = change
        if change.broken and self.now.stage is not Stage.COMPUTING and self._world.rng.random() < 0.5:
            self._fail(())

    def _remind(self) -> None:
        if self.now.stage is Stage.STANDING and self._ready is not None:
            self._advance(Happened.REMINDED)
            self._host.say(self._ready)

    # From the group.

    def completed(self, group: Group, operation: int, result: bool) -> None:
        self._do(lambda: self._completed(group, operation, result))

    def failed(self, group: Group, operation: int, suspects: tuple[MemberId, ...]) -> None:
        self._do(lambda: self._failed(group, operation, suspects))

    def _completed(self, group: Group, operation: int, result: bool) -> None:
        if not self._is_in(group, operation):
            return
        stage = self.now.stage
        if stage is Stage.REGROUPING:
            self._formed(group)
        elif stage is Stage.RESTORING:
            self._restored()
        elif stage is Stage.COMPUTING:
            self._advance(Happened.REDUCED)
            self._advance(Happened.VOTE)
            self._voted_in = group.form.epoch
            self._next(self._change is not None)
        elif stage is Stage.VOTED:
            self._advance(Happened.ALL_AND_STOP if result else Happened.ALL)
            if result:
                self._stand(())
            else:
                self._compute()
        elif stage is Stage.CLOSING:
            self._advance(Happened.ALL)
            self._world.observer.done = True
            self._host.say_last(Leaving(member=self.id, reason=DONE))
            self._world.left(self)

    def _failed(self, group: Group, operation: int, suspects: tuple[MemberId, ...]) -> None:
        if self._is_in(group, operation):
            self._fail(suspects)

    def _is_in(self, group: Group, operation: int) -> bool:
        current = self.trying if self.now.stage is Stage.REGROUPING else self.group
        return current is group and operation == self._operation and self.now.stage is not Stage.STANDING

    # The protocol.

    def _formed(self, group: Group) -> None:
        self.group, self.trying = group, None
        self._advance(Happened.FORMED)
        if self._later is not None:
            self._fail(())
            return
        plan = group.plan
        rank = group.ranks[self.id]
        before = self.now.position
        self.now, actions = recover(self.now, plan, rank)
        if Do.COMMIT in actions:
            assert before.in_doubt is not None
            self._take(before.in_doubt)
        elif before.in_doubt is not None:
            self._world.observer.given_up += 1
        if rank not in group.restoring:
            group.agree_on(self.digest)
        if plan.restoring:
            self._next()
        else:
            self._restored()

    def _restored(self) -> None:
        assert self.group is not None
        group = self.group
        if group.ranks[self.id] in group.restoring:
            self._advance(Happened.LOADING)
            assert group.digest is not None
            self.digest = group.digest
            self._world.observer.restored += 1
        self.now, _ = restored(self.now, group.plan, group.ranks[self.id])
        self._world.observer.has_settled(group.form.epoch, self.now.position.committed, self.digest)
        self._host.say(Settled(member=self.id, epoch=group.form.epoch, seconds=0.0))
        self._compute()

    def _compute(self) -> None:
        settings = self._world.settings
        self._turn += 1
        turn = self._turn
        last = settings.steps is not None and self.now.position.committed >= settings.steps
        seconds = 0.0 if last else settings.compute * self.slowness * self._world.rng.uniform(0.8, 1.2)
        self._world.loop.after(seconds, lambda: self._do(lambda: self._computed(turn, last)))

    def _computed(self, turn: int, last: bool) -> None:
        if turn != self._turn or self.now.stage is not Stage.COMPUTING:
            return
        if self._change is not None and self._change.broken:
            self._fail(())
            return
        if last:
            self._advance(Happened.END)
        self._next()

    def _next(self, value: bool = False) -> None:
        assert self.group is not None
        self._operation += 1
        self.group.arrive(self, self._operation, value)

    def _fail(self, suspects: tuple[MemberId, ...]) -> None:
        group = self.trying if self.now.stage is Stage.REGROUPING else self.group
        assert group is not None
        self._advance(Happened.FAILED)
        group.gone(self.id)
        self._stand(suspects)

    def _stand(self, suspects: tuple[MemberId, ...]) -> None:
        group = self.trying or self.group
        assert group is not None
        self.trying = None
        self._turn += 1
        self._ready = Ready(
            member=self.id,
            epoch=group.form.epoch,
            handle=self._handle(),
            position=self.now.position,
            suspects=tuple(one for one in suspects if one != self.id),
        )
        self._host.say(self._ready)
        later, self._later = self._later, None
        if later is not None:
            self._hear_form(later)

    def _advance(self, happened: Happened) -> None:
        before = self.now.position
        self.now, actions = advance(self.now, happened)
        if Do.COMMIT in actions:
            assert before.in_doubt is not None
            self._take(before.in_doubt)
        self._world.reached(self)

    def _take(self, step: int) -> None:
        assert self._voted_in is not None
        self.digest = hash((self.digest, self._voted_in, step))
        self._world.took(self, self._voted_in, step)

    # Faults.

    def _do(self, what: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.hung is not None:
            self.hung.append(what)
        else:
            what()

    def hang(self) -> None:
        if self.alive and self.hung is None:
            self.hung = []

    def wake(self) -> None:
        waiting, self.hung = self.hung or [], None
        for what in waiting:
            self._do(what)
