"""How a session keeps its place in the job: from step to step, and from one epoch to the next."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch.distributed as dist

from pycomms.ft import _device, _sync_points
from pycomms.ft._keeping import Keeping
from pycomms.ft._losses import RECOVERABLE, Loss, slots_gone, words
from pycomms.ft._member import Membership
from pycomms.ft._recovery import Recovery
from pycomms.ft._restore import serve_or_fetch
from pycomms.ft._trained import Trained
from pycomms.ft.agreement import Agreements, highest
from pycomms.ft.core import recovery, timeouts
from pycomms.ft.core import step as step_protocol
from pycomms.ft.core.messages import Form, Position, Seat, Standing
from pycomms.ft.core.step import Do, Happened, Progression, Stage
from pycomms.ft.errors import CoordinatorLost, JobEnded, NothingToRestoreFrom

if TYPE_CHECKING:
    from pycomms.ft.replica import Replica

_LOG = logging.getLogger("pycomms.ft")
_SYNC_POINTS = (Stage.STANDING, Stage.REDUCED, Stage.VOTED, Stage.CLOSING, Stage.DONE)


class Course:
    """Does what `core.step` says is to be done.

    Attributes:
        now: where this member is in the protocol.
        agreements: what members have agreed on in the step.
    """

    def __init__(
        self,
        membership: Membership,
        trained: Trained,
        keeping: Keeping,
        waits: timeouts.Timeouts,
        replica: Replica | None,
        position: Position,
        on_recovery: Callable[[Recovery], None],
    ) -> None:
        self.now = Progression(position=position)
        self.agreements = Agreements(waits.operation)
        self._membership = membership
        self._trained = trained
        self._keeping = keeping
        self._waits = waits
        self._replica = replica
        self._on_recovery = on_recovery
        self._is_joined = False
        self._world_of_step = 0

    @property
    def committed(self) -> int:
        return self.now.position.committed

    @property
    def is_standing(self) -> bool:
        """Somebody was asked to stop behind the step that was committed."""
        return self.now.stage is Stage.STANDING

    @property
    def peers(self) -> dist.ProcessGroup:
        """Those who have the same state as this member."""
        return self._membership.group if self._replica is None else self._replica.peers

    def join(self) -> None:
        if self._is_joined:
            return
        began = time.perf_counter()
        found = self._keeping.look()
        if found is not None:
            self.now = Progression(position=Position(committed=found, standing=Standing.LOADED))
        self._reached("joining")
        form = self._membership.join(self.now.position)
        self._is_joined = True
        self._settle_until_all_have(form, began, "joined")

    def reduced(self) -> None:
        self._advance(Happened.REDUCED)

    def commit(self, number: int) -> None:
        """All say that they have come so far, and whether they were asked to stop behind this step."""
        if self.now.stage is Stage.COMPUTING:  # the program has summed by itself
            self._advance(Happened.REDUCED)
        self._advance(Happened.VOTE)
        stops = self.vote(number)
        self._reached("decided")
        self._trained.take_step(number, self._world_of_step)
        self._advance(Happened.ALL_AND_STOP if stops else Happened.ALL)

    def vote(self, number: int) -> bool:
        """Whether some member was asked to stop. Raises what the group raises: then nobody knows who has committed."""
        told = (self._membership.change is not None, number, -number)
        wants_change, last, first = highest(self._membership.group, told, self._waits.operation)
        if last != -first:
            raise RuntimeError(f"members commit different steps, from {-first} to {last}; this one {number}")
        return bool(wants_change)

    def recover(self, error: BaseException | None) -> Recovery:
        """Stands still, and goes on in the next epoch."""
        began = time.perf_counter()
        loss = self._loss_of(error)
        before = self._membership.seats
        form = self._stand(loss)
        return self._settle_until_all_have(form, began, words(form, before) or loss.reason or form.reason)

    def fall_back(self, seats: Sequence[Seat]) -> Position | None:
        """With what this member comes where of some shard nobody has the state: with a checkpoint; None: as it is."""
        lack = None if self._replica is None else self._replica.lack(seats)
        found = self._keeping.look() if lack is not None else None
        if lack is None or found is None:
            return None
        position = Position(committed=found, standing=Standing.LOADED)
        if position == self.now.position and not lack.is_lost:
            return None  # others have it, or will
        if self.now.position.standing is not Standing.LOADED:
            _LOG.warning("%s: the job goes back to the checkpoint of step %d", lack.reason, found)
        self.now = replace(self.now, position=position)
        return position

    def finish(self) -> None:
        """Nobody leaves before all have committed the last step: somebody may be in doubt about it."""
        error: BaseException | None = None
        while True:
            try:
                if error is not None:
                    self.recover(error)
                self._advance(Happened.END)
                self.vote(self.committed + 1)
                self._advance(Happened.ALL)
                break
            except RECOVERABLE as err:
                error = err
            except (JobEnded, CoordinatorLost):
                break

    def _advance(self, happened: Happened) -> None:
        """What is to be done then, the caller does: `core.step` is where it can be read and is tested."""
        self.now, _ = step_protocol.advance(self.now, happened)
        self._membership.moved_to(self.now.position)
        if self.now.stage in _SYNC_POINTS:
            self._reached(self.now.stage.value)

    def _reached(self, point: str, **told: object) -> None:
        _sync_points.reached(point, self._membership.slot, self.committed + 1, **told)

    def _loss_of(self, error: BaseException | None) -> Loss:
        return self._membership.loss_of(error if self._replica is None else self._replica.blame(error))

    def _stand(self, loss: Loss) -> Form:
        _device.check()  # whoever cannot compute would make the next step fail as well
        if self.now.stage is not Stage.STANDING:
            self._advance(Happened.FAILED)
        if self._replica is not None:
            self._replica.give_up()
            self._replica.put_in_order()
        before = self._membership.seats
        form = self._membership.stand(self.now.position, loss)
        self.agreements.miss(slots_gone(before, form.seats))
        return form

    def _settle_until_all_have(self, form: Form, began: float, reason: str) -> Recovery:
        """Also through failures that come meanwhile."""
        while True:
            try:
                plan, has_restored = self._settle(form)
                if self._membership.is_in:
                    break
                form = self._membership.stand_by(self.now.position)
                self._advance(Happened.FAILED)
            except RECOVERABLE as err:
                form = self._stand(self._loss_of(err))
        self._world_of_step = self._membership.world
        seconds = time.perf_counter() - began
        self._membership.settled(seconds)
        done = Recovery(
            step=self.committed,
            world=self._membership.world,
            reason=reason,
            plan=plan.reason,
            seconds=seconds,
            restored=has_restored,
        )
        members = [seat.slot for seat in self._membership.seats]
        self._reached("settled", members=members, reason=reason, plan=plan.reason, restored=has_restored)
        self._on_recovery(done)
        return done

    def _settle(self, form: Form) -> tuple[recovery.Plan, bool]:
        """This member has what the plan of the epoch says that it has, afterwards."""
        self._advance(Happened.FORM)
        self._advance(Happened.FORMED)
        try:
            plan = recovery.plan(form.seats) if self._replica is None else self._replica.plan(form.seats)
        except recovery.NothingToRestoreFromError as err:
            raise NothingToRestoreFrom(str(err)) from err
        place = next(place for place, seat in enumerate(form.seats) if seat.slot == self._membership.slot)
        after, actions = step_protocol.recover(self.now, plan, place)
        if Do.COMMIT in actions:
            self._trained.take_step(after.position.committed, self._world_of_step)
        elif Do.DISCARD in actions:
            self._trained.put_back()
        self.now = after
        self._membership.moved_to(after.position)
        if Do.COMMIT in actions:
            self._reached("committed", committed=self.committed)
        if not self._membership.is_in:
            return plan, False
        if recovery.has_lost_all(form.seats, is_first_epoch=form.previous is None):
            _LOG.warning(
                "nobody is left who has trained: the job goes on from step %d, with what the program has made or "
                "loaded",
                plan.base,
            )
        if Do.COMMIT in actions:
            self._keeping.committed(self.committed, self._membership.rank)
        if self._replica is not None:
            self._replica.form(self._membership.group, form.epoch.uuid, self._waits.regroup)
        is_restoring = place in plan.restoring
        if not is_restoring:
            self._keeping.load()
        self._restore(form, plan, is_restoring)
        self._keeping.forget()
        self.now, _ = step_protocol.restored(self.now, plan, place)
        self._membership.moved_to(self.now.position)
        return plan, is_restoring

    def _restore(self, form: Form, plan: recovery.Plan, is_restoring: bool) -> None:
        """All who need the state fetch it from those of their peers who have it."""
        seats = {seat.slot: place for place, seat in enumerate(form.seats)}
        shards = 1 if self._replica is None else self._replica.shards
        own = self._membership.slot
        peers = [seats[seat.slot] for seat in self._membership.seats if (seat.slot - own) % shards == 0]
        if not any(place in plan.restoring for place in peers):
            return
        self._reached("fetching" if is_restoring else "serving")
        fetched = serve_or_fetch(
            self.peers,
            [rank for rank, place in enumerate(peers) if place in plan.sources],
            is_restoring,
            self._trained.take_apart,
            self._waits.restore,
            None if self._replica is None else self._replica.mesh,
        )
        if fetched is not None:
            self._advance(Happened.LOADING)
            self._reached("loading")
            self._trained.load(fetched)
