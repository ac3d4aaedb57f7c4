"""The loop of a training that goes on when members die or come."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from pycomms.ft import _start
from pycomms.ft._buffers import Buffers
from pycomms.ft._keeping import Keeping
from pycomms.ft._member import Membership as Membership
from pycomms.ft._membership import RECOVERABLE, Loss, slots_gone, words
from pycomms.ft._random import KeptStates, StepSeeds
from pycomms.ft._recovery import Recovery
from pycomms.ft._reduction import Gradients, Latch
from pycomms.ft._restore import serve_or_fetch
from pycomms.ft._state import Stateful, load, parts_of, take_apart
from pycomms.ft.agreement import Agreement, Agreements, highest
from pycomms.ft.core import recovery, timeouts
from pycomms.ft.core import step as step_protocol
from pycomms.ft.core.messages import Form, Position, Standing
from pycomms.ft.core.step import Do, Happened, Progression, Stage
from pycomms.ft.ddp import DistributedDataParallel
from pycomms.ft.errors import CoordinatorLost, JobEnded, NothingToRestoreFrom, SessionError
from pycomms.ft.sampler import ElasticSampler
from pycomms.ft.step import Step, StepDiscarded

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pycomms.ft.checkpoints import Checkpoints
    from pycomms.ft.outer import LocalSGD
    from pycomms.ft.replica import Replica

_PROGRESS_EVERY = 1.0  # s
_INNER = ("optimizer", "scheduler")  # what inner steps move on


class Session:
    """A training of which every member has the same state, kept alive by those who are left.

        session = ft.Session(model, optimizer, sampler=sampler, min_ranks=2)
        for step in session.steps(until=10_000):
            with step:
                loss = loss_of(model, next(step.batches))
                loss.backward()
                step.optimizer_step()

    Under ``pycomms run`` members come and go: when one dies, the others make a group without it and do the step again,
    and whoever takes its place fetches the state from their memory. Elsewhere the members are those of the program's
    group, and a failure ends it. Making a session says nothing to anybody; the first step does.

    Args:
        model: the module that is trained. A :class:`pycomms.ft.DistributedDataParallel` reduces its gradients while the
            backward pass goes on; of any other module they are reduced by ``optimizer_step()``. None: the program sums
            by itself, over :attr:`group`.
        optimizer: over parameters of the model; steps when a step is committed.
        scheduler: of the learning rate; steps with the optimizer.
        scaler: a ``torch.amp.GradScaler``; unscales, steps and updates with the optimizer.
        sampler: gives each step its samples.
        state: more of the training's state, by name: whatever has ``state_dict`` and ``load_state_dict``. It must
            change only where a step is committed.
        replica: where the model is sharded (FSDP2): with whom. Every parameter has to be on its mesh.
        outer: :class:`pycomms.ft.LocalSGD` or :class:`pycomms.ft.DiLoCo`: a step is then a round of inner steps.
        min_ranks: fewer members do not train: they wait for others.
        world: what happens to the batch when members change. ``"dynamic"``: a micro-batch for each member, so the batch
            has the size of the group. ``"constant"``: ``micro_batches`` for each step, however many are in.
        micro_batches: of a step, with ``world="constant"``.
        seed: random generators (torch, random, numpy) are seeded at each step by this, the step and the slot, so a step
            that is done again draws the same. None: they go on from step to step, and are put back for a step that is
            done again.
        recovery_deadline: the one timeout; the others follow from it, see :meth:`timeouts`. None: that of
            ``pycomms run``, or 10 s.
        committed: steps that the state given here has behind it, if it is a checkpoint's that you have loaded.
        checkpoints: where to write one every so many steps, and to begin from when all members are started anew.
        on_recovery: called when training goes on after a change of members.
        membership: makes what decides who is in, from timeouts and min_ranks; None: what the environment says.

    Raises:
        ValueError: an argument contradicts another.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        optimizer: Optimizer | None = None,
        *,
        scheduler: Any = None,
        scaler: Any = None,
        sampler: ElasticSampler | None = None,
        state: Mapping[str, Stateful] | None = None,
        replica: Replica | None = None,
        outer: LocalSGD | None = None,
        min_ranks: int = 1,
        world: Literal["dynamic", "constant"] = "dynamic",
        micro_batches: int | None = None,
        seed: int | None = 0,
        recovery_deadline: timedelta | None = None,
        committed: int = 0,
        checkpoints: Checkpoints | None = None,
        on_recovery: Callable[[Recovery], None] | None = None,
        membership: Callable[[timeouts.Timeouts, int], Membership] | None = None,
    ) -> None:
        if world not in ("dynamic", "constant"):
            raise ValueError(f"Session: world is {world!r}, expected 'dynamic' or 'constant'")
        if (world == "constant") != (micro_batches is not None):
            raise ValueError("Session: micro_batches belongs to world='constant', which needs it")
        if micro_batches is not None and micro_batches < 1:
            raise ValueError(f"Session: micro_batches is {micro_batches}, expected at least 1")
        if min_ranks < 1:
            raise ValueError(f"Session: min_ranks is {min_ranks}, expected at least 1")
        if committed < 0:
            raise ValueError(f"Session: committed is {committed}, expected at least 0")
        if committed and checkpoints is not None:
            raise ValueError(f"Session: committed is {committed}, but the checkpoints say how far the state is")
        if replica is not None and checkpoints is not None:
            raise ValueError("Session: checkpoints are of a whole state, and with a replica a member has a shard of it")
        if outer is not None and (
            model is None
            or optimizer is None
            or isinstance(model, DistributedDataParallel)
            or not (scaler is None and replica is None and micro_batches is None)
        ):
            raise ValueError(
                f"Session: {type(outer).__name__} needs a plain model and an optimizer, and goes with none of scaler, "
                "replica and world='constant'"
            )
        if optimizer is None and (scheduler is not None or scaler is not None):
            raise ValueError("Session: a scheduler or a scaler needs the optimizer")
        self.model = model
        self.optimizer = optimizer
        self.recoveries: list[Recovery] = []
        self._scheduler = scheduler
        self._scaler = scaler
        self._sampler = sampler
        self._micro_batches = micro_batches
        self._parts = parts_of(model, optimizer, scheduler, scaler, sampler, outer, state)
        self._timeouts = timeouts.derive(_start.deadline(recovery_deadline))
        self._on_recovery = on_recovery
        self._keeping = Keeping(checkpoints, self._parts)
        self._ddp = model if isinstance(model, DistributedDataParallel) else None
        self._outer = outer
        if outer is not None and model is not None:
            outer.bind(model, [self._parts[name] for name in _INNER if name in self._parts])
        reduces = model is not None and optimizer is not None and self._ddp is None and outer is None
        self._gradients = Gradients(model) if model is not None and reduces else None
        self._latch = Latch()
        self._agreements = Agreements(self._timeouts.operation)
        self._buffers = Buffers(model)
        self._random = KeptStates() if seed is None else StepSeeds(seed)
        standing = Standing.LOADED if committed else Standing.FRESH
        self._now = Progression(position=Position(committed=committed, standing=standing))
        self._is_joined = False
        self._world_of_step = 0
        self._broken: BaseException | None = None
        self._last_told = (time.monotonic(), committed)
        self._membership: Membership = (membership or _start.membership)(self._timeouts, min_ranks)
        self._replica = replica
        if replica is not None:
            replica.bind(model, world, self._timeouts.operation)
            self._membership.divide(lambda seats: replica.choose(seats, min_ranks), replica.give_up)

    @property
    def group(self) -> dist.ProcessGroup:
        """The group of all members, for collectives inside a step. It stays the same object whoever is in it."""
        return self._membership.group

    @property
    def rank(self) -> int:
        """Of this process in :attr:`group`; may change when members do. See :attr:`slot`."""
        return self._membership.rank

    @property
    def world(self) -> int:
        """Members of :attr:`group`."""
        return self._membership.world

    @property
    def slot(self) -> int:
        """This member's place in the job, from 0: it stays, and whoever comes in a dead member's place has the same."""
        return self._membership.slot

    @property
    def committed(self) -> int:
        """The last step that was committed; 0: none."""
        return self._now.position.committed

    def timeouts(self) -> timeouts.Timeouts:
        """What each layer waits for: all of it follows from ``recovery_deadline``."""
        return self._timeouts

    def steps(self, until: int) -> Iterator[Step]:
        """The steps from the first one that is not committed to ``until``; one that is discarded comes again.

        Joins the job at first. Leaves when all members have come to the end. Collective.

        Raises:
            JobEnded: the coordinator has no place for this member, or has ended the job.
            CoordinatorLost: nobody has said how to go on.
            NothingToRestoreFrom: all members are half restored.
        """
        self._join()
        attempt, number = 0, 0
        while self.committed < until:
            attempt = attempt + 1 if number == self.committed + 1 else 0
            number = self.committed + 1
            step = Step(self, number, attempt)
            yield step
            if self._broken is not None:
                raise SessionError(f"step {number} was left by an error, and the session with it") from self._broken
            if not step.committed and not step.reason:
                raise RuntimeError(f"step {number}: taken from session.steps() and not used: 'with step: …'")
        self._finish()

    def close(self) -> None:
        """Leaves the job: the others go on without this member. Again: does nothing."""
        self._membership.leave("closed")
        self._keeping.close(self._timeouts.rejoin)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _peers(self) -> dist.ProcessGroup:
        """Those who have the same state as this member."""
        return self.group if self._replica is None else self._replica.peers

    # What a step asks for.

    def _begin(self, step: Step) -> None:
        if self._broken is not None:
            raise SessionError("the session was left by an error before") from self._broken
        self._latch.clear()
        self._agreements.begin(step.number)
        self._buffers.keep()
        if self._ddp is not None:
            self._ddp.aim(self.group, self._latch, self._micro_batches_of(step.world))
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=True)
        if self._outer is not None:
            self._outer.begin()
        self._random.begin(step.number, self.slot)

    def _micro_batches_of(self, world: int) -> int:
        """Of a step, over all members."""
        return self._micro_batches or world * (self._outer.every if self._outer is not None else 1)

    def _inner_step(self) -> None:
        if self._outer is None or self.optimizer is None:
            raise RuntimeError("inner_step() is for sessions with an outer=")
        self.optimizer.step()
        if self._scheduler is not None:
            self._scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _batches_of(self, step: Step) -> Iterator[Any]:
        if self._sampler is None:
            raise RuntimeError(f"step {step.number}: batches was asked for, but the session has no sampler")
        share = self._sampler.share(step.rank, step.world, self._micro_batches_of(step.world))
        for index, batch in enumerate(self._sampler.batches(share)):
            if self._ddp is not None:
                self._ddp.reduces_next(index == len(share.places) - 1)
            yield batch

    def _reduce(self, step: Step) -> None:
        if self._latch.error is not None:
            raise StepDiscarded from self._latch.error
        if self._gradients is not None:
            shards = 1 if self._replica is None else self._replica.shards  # they have averaged by themselves
            self._gradients.reduce(self._peers, self._micro_batches_of(step.world) // shards)
        if self._outer is not None:
            self._outer.reduce(self.group)
        self._advance(Happened.REDUCED)

    def _agree(self, flag: bool) -> Agreement:
        if self._latch.error is not None:
            raise StepDiscarded from self._latch.error
        return self._agreements.agree(self.group, flag)

    def _commit(self, step: Step) -> None:
        """All say that they have come so far, and whether they were asked to stop behind this step."""
        if self._latch.error is not None:
            raise StepDiscarded from self._latch.error
        if self._now.stage is Stage.COMPUTING:  # the program has summed by itself
            self._advance(Happened.REDUCED)
        self._advance(Happened.VOTE)
        stops = self._vote(step.number)
        self._take_step(step.number)
        self._advance(Happened.ALL_AND_STOP if stops else Happened.ALL)
        step.committed = True
        self._keeping.committed(self.committed, self.rank)

    def _end(self, step: Step, error: BaseException | None) -> None:
        if isinstance(error, StepDiscarded):
            error = self._latch.error
        if not step.committed and error is None:
            error = RuntimeError(f"step {step.number}: left without optimizer_step() or commit()")
            self._give_up(error)
            raise error
        if error is not None or self._now.stage is Stage.STANDING:
            done = self._recover(error)
            step.reason = done.reason or "members have changed"
            step.committed = step.committed or (self.committed >= step.number and not done.restored)
        self._tell_progress()

    def _give_up(self, error: BaseException) -> None:
        self._broken = error
        self._membership.leave(f"left by {type(error).__name__}: {error}")

    # The protocol.

    def _vote(self, number: int) -> bool:
        """Whether some member was asked to stop. Raises what the group raises: then nobody knows who has committed."""
        told = (self._membership.change is not None, number, -number)
        wants_change, last, first = highest(self.group, told, self._timeouts.operation)
        if last != -first:
            raise RuntimeError(f"members commit different steps, from {-first} to {last}; this one {number}")
        return bool(wants_change)

    def _take_step(self, number: int) -> None:
        """Once all have voted: nothing here concerns another member."""
        if self._outer is not None:
            self._outer.take_step()
        elif self.optimizer is not None:
            if self._scaler is not None:
                self._scaler.step(self.optimizer)
                self._scaler.update()
            else:
                self.optimizer.step()
            if self._scheduler is not None:
                self._scheduler.step()
        if self._sampler is not None:
            world = self._world_of_step
            self._sampler.commit(number, world, self._micro_batches_of(world))

    def _advance(self, happened: Happened) -> None:
        """What is to be done then, the caller does: `core.step` is where it can be read and is tested."""
        self._now, _ = step_protocol.advance(self._now, happened)
        self._membership.moved_to(self._now.position)

    def _join(self) -> None:
        if self._is_joined:
            return
        began = time.perf_counter()
        found = self._keeping.look()
        if found is not None:
            self._now = Progression(position=Position(committed=found, standing=Standing.LOADED))
        form = self._membership.join(self._now.position)
        self._is_joined = True
        self._settle_until_all_have(form, began, "joined")

    def _recover(self, error: BaseException | None) -> Recovery:
        began = time.perf_counter()
        loss = self._loss_of(error)
        before = self._membership.seats
        form = self._stand(loss)
        return self._settle_until_all_have(form, began, words(form, before) or loss.reason or form.reason)

    def _loss_of(self, error: BaseException | None) -> Loss:
        return self._membership.loss_of(error if self._replica is None else self._replica.blame(error))

    def _stand(self, loss: Loss) -> Form:
        if self._now.stage is not Stage.STANDING:
            self._advance(Happened.FAILED)
        if self._replica is not None:
            self._replica.give_up()
            self._replica.put_in_order()
        before = self._membership.seats
        form = self._membership.stand(self._now.position, loss)
        self._agreements.miss(slots_gone(before, form.seats))
        return form

    def _settle_until_all_have(self, form: Form, began: float, reason: str) -> Recovery:
        """Also through failures that come meanwhile."""
        while True:
            try:
                plan, has_restored = self._settle(form)
                if self._membership.is_in:
                    break
                form = self._membership.stand_by(self._now.position)
                self._advance(Happened.FAILED)
            except RECOVERABLE as err:
                form = self._stand(self._loss_of(err))
        self._world_of_step = self.world
        seconds = time.perf_counter() - began
        self._membership.settled(seconds)
        done = Recovery(
            step=self.committed,
            world=self.world,
            reason=reason,
            plan=plan.reason,
            seconds=seconds,
            restored=has_restored,
        )
        self.recoveries.append(done)
        if self._on_recovery is not None:
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
        place = next(place for place, seat in enumerate(form.seats) if seat.slot == self.slot)
        after, actions = step_protocol.recover(self._now, plan, place)
        if Do.COMMIT in actions:
            self._take_step(after.position.committed)
        elif Do.DISCARD in actions:
            self._buffers.put_back()
            if self._outer is not None:
                self._outer.put_back()
        self._now = after
        self._membership.moved_to(after.position)
        if Do.COMMIT in actions:
            self._keeping.committed(self.committed, self.rank)
        if not self._membership.is_in:
            return plan, False
        if self._replica is not None:
            self._replica.form(self.group, form.epoch.uuid, self._timeouts.regroup)
        is_restoring = place in plan.restoring
        if not is_restoring:
            self._keeping.load()
        self._restore(form, plan, is_restoring)
        self._keeping.forget()
        self._now, _ = step_protocol.restored(self._now, plan, place)
        self._membership.moved_to(self._now.position)
        return plan, is_restoring

    def _restore(self, form: Form, plan: recovery.Plan, is_restoring: bool) -> None:
        """All who need the state fetch it from those of their peers who have it."""
        seats = {seat.slot: place for place, seat in enumerate(form.seats)}
        shards = 1 if self._replica is None else self._replica.shards
        peers = [seats[seat.slot] for seat in self._membership.seats if (seat.slot - self.slot) % shards == 0]
        if not any(place in plan.restoring for place in peers):
            return
        fetched = serve_or_fetch(
            self._peers,
            [rank for rank, place in enumerate(peers) if place in plan.sources],
            is_restoring,
            lambda: take_apart(self._parts, () if self._outer is None else _INNER),
            self._timeouts.restore,
            None if self._replica is None else self._replica.mesh,
        )
        if fetched is not None:
            self._advance(Happened.LOADING)
            load(self._parts, fetched)

    def _finish(self) -> None:
        """Nobody leaves before all have committed the last step: somebody may be in doubt about it."""
        error: BaseException | None = None
        while True:
            try:
                if error is not None:
                    self._recover(error)
                self._advance(Happened.END)
                self._vote(self.committed + 1)
                self._advance(Happened.ALL)
                break
            except RECOVERABLE as err:
                error = err
            except (JobEnded, CoordinatorLost):
                break
        self._membership.leave("done")
        self._keeping.close(self._timeouts.rejoin)

    def _tell_progress(self) -> None:
        then, committed = self._last_told
        now = time.monotonic()
        if now - then >= _PROGRESS_EVERY:
            self._last_told = (now, self.committed)
            self._membership.progress(self.committed, (self.committed - committed) / (now - then))
