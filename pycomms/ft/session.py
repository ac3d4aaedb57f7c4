"""The loop of a training that goes on when members die or come."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import torch.distributed as dist
from torch import nn
from torch.optim import Optimizer

from pycomms.ft import _start, _sync_points, _uncaught
from pycomms.ft._arguments import expect_int, expect_kinds
from pycomms.ft._course import Course
from pycomms.ft._keeping import Keeping
from pycomms.ft._member import Membership
from pycomms.ft._random import KeptStates, StepSeeds
from pycomms.ft._recovery import Recovery
from pycomms.ft._reduction import Gradients, Latch
from pycomms.ft._state import Stateful
from pycomms.ft._trained import Trained
from pycomms.ft.agreement import Agreement
from pycomms.ft.core import timeouts
from pycomms.ft.core.messages import Position, Standing
from pycomms.ft.errors import SessionError
from pycomms.ft.sampler import ElasticSampler
from pycomms.ft.step import Step, StepDiscarded

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from pycomms.ft.checkpoints import Checkpoints
    from pycomms.ft.outer import LocalSGD
    from pycomms.ft.replica import Replica

_PROGRESS_EVERY = 1.0  # s


class Session:
    """A training of which every member has the same state, kept alive by those who are left::

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
        scheduler: of the learning rate; steps with the optimizer, at each step and not at each epoch.
        scaler: a ``torch.amp.GradScaler``; unscales, steps and updates with the optimizer.
        sampler: gives each step its samples.
        state: more of the training's state, by name: whatever has ``state_dict`` and ``load_state_dict``. It must
            change only where a step is committed: in ``on_commit``.
        replica: where the model is sharded (FSDP2): with whom. Every parameter has to be on its mesh.
        outer: :class:`pycomms.ft.LocalSGD` or :class:`pycomms.ft.DiLoCo`: a step is then a round of inner steps.
        min_ranks: fewer members do not train: they wait for others.
        world: what happens to the batch when members change. ``"dynamic"``: a micro-batch for each member, so the batch
            has the size of the group. ``"constant"``: ``micro_batches`` for each step, however many are in.
        micro_batches: of a step, with ``world="constant"``. With a replica a multiple of its shards.
        seed: random generators (torch, random, numpy) are seeded at each step by this, the step and the slot, so a step
            that is done again draws the same. None: they go on from step to step, and are put back for a step that is
            done again.
        recovery_deadline: the one timeout; the others follow from it, see :meth:`timeouts`. None: that of
            ``pycomms run``, or 10 s.
        committed: steps that the state given here has behind it, if it is a checkpoint's that you have loaded.
        checkpoints: where to write one every so many steps, and to begin from when all members are started anew.
        on_commit: called on every member with the number of each step that is taken, behind optimizer and scheduler:
            here ``state`` moves on. Behind the block is too late, for checkpoints and newcomers have got it by then.
        on_recovery: called when training goes on after a change of members.
        membership: makes what decides who is in, from timeouts and min_ranks; None: what the environment says.

    Attributes:
        recoveries: what has happened so far when members changed, in its order; the first is the beginning.

    Raises:
        ValueError: an argument contradicts another.
        TypeError: an argument is not what its name asks for.
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
        on_commit: Callable[[int], None] | None = None,
        on_recovery: Callable[[Recovery], None] | None = None,
        membership: Callable[[timeouts.Timeouts, int], Membership] | None = None,
    ) -> None:
        if world not in ("dynamic", "constant"):
            raise ValueError(f"Session: world is {world!r}, expected 'dynamic' or 'constant'")
        if (world == "constant") != (micro_batches is not None):
            raise ValueError("Session: micro_batches belongs to world='constant', which needs it")
        if micro_batches is not None:
            expect_int("Session", "micro_batches", micro_batches, 1)
        if seed is not None:
            expect_int("Session", "seed", seed)
        expect_int("Session", "min_ranks", min_ranks, 1)
        expect_int("Session", "committed", committed, 0)
        expect_kinds("Session", replica=replica, checkpoints=checkpoints, on_commit=on_commit, on_recovery=on_recovery)
        if committed and checkpoints is not None:
            raise ValueError(f"Session: committed is {committed}, but the checkpoints say how far the state is")
        if outer is not None and replica is not None:
            raise ValueError(f"Session: {type(outer).__name__} does not go with a replica")
        self.recoveries: list[Recovery] = []
        self._trained = Trained(
            model,
            optimizer,
            scheduler=scheduler,
            scaler=scaler,
            sampler=sampler,
            state=state,
            outer=outer,
            micro_batches=micro_batches,
            on_commit=on_commit,
        )
        self._timeouts = timeouts.derive(_start.deadline(recovery_deadline))
        self._on_recovery = on_recovery
        self._keeping = Keeping(checkpoints, self._trained.parts, replica)
        self._outer = outer
        self._replica = replica
        reduces = model is not None and optimizer is not None and self._trained.ddp is None and outer is None
        self._gradients = Gradients(model) if model is not None and reduces else None
        self._latch = Latch()
        self._random = KeptStates() if seed is None else StepSeeds(seed)
        self._broken: BaseException | None = None
        self._last_told = (time.monotonic(), committed)
        self._membership: Membership = (membership or _start.membership)(self._timeouts, min_ranks)
        if replica is not None:
            replica.bind(model, micro_batches, self._timeouts.operation)
        self._course = Course(
            self._membership,
            self._trained,
            self._keeping,
            self._timeouts,
            replica,
            Position(committed=committed, standing=Standing.LOADED if committed else Standing.FRESH),
            self._went_on,
        )
        if replica is not None:
            choose = functools.partial(replica.choose, min_ranks=min_ranks)
            self._membership.divide(choose, replica.give_up, self._course.fall_back)
        _uncaught.watch(self)

    @property
    def model(self) -> nn.Module | None:
        return self._trained.model

    @property
    def optimizer(self) -> Optimizer | None:
        return self._trained.optimizer

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
        """This member's place in the job, from 0: it stays, and whoever comes in a dead member's place has the same.

        Known from the first step on. Before it: what ``PYCOMMS_SLOT`` says, otherwise 0.
        """
        return self._membership.slot

    @property
    def committed(self) -> int:
        """The last step that was committed; 0: none."""
        return self._course.committed

    def timeouts(self) -> timeouts.Timeouts:
        """What each layer waits for: all of it follows from ``recovery_deadline``."""
        return self._timeouts

    def steps(self, until: int) -> Iterator[Step]:
        """The steps from the first one that is not committed to ``until``; one that is discarded comes again.

        Joins the job at first. Leaves when all members have come to the end. Collective.

        Raises:
            JobEnded: the coordinator has no place for this member, or has ended the job.
            AllDone: a JobEnded: the others came to the end before this member could train along.
            CoordinatorLost: nobody has said how to go on.
            NothingToRestoreFrom: all members are half restored, or of some shard nobody has the state, and there is no
                checkpoint.
        """
        expect_int("Session.steps", "until", until, 0)
        self._course.join()
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
        self._course.finish()
        self._membership.leave("done")
        self._keeping.close(self._timeouts.rejoin)

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

    # What a step asks for.

    def _begin(self, step: Step) -> None:
        if self._broken is not None:
            raise SessionError("the session was left by an error before") from self._broken
        _sync_points.reached("step", self.slot, step.number)
        self._latch.clear()
        self._course.agreements.begin(step.number)
        if self._trained.ddp is not None:
            self._trained.ddp.aim(self.group, self._latch, self._trained.micro_batches_of(step.world))
        self._trained.begin()
        self._random.begin(step.number, self.slot)

    def _inner_step(self) -> None:
        self._trained.inner_step()

    def _batches_of(self, step: Step) -> Iterator[Any]:
        if self._trained.sampler is None:
            raise RuntimeError(f"step {step.number}: batches was asked for, but the session has no sampler")
        return self._trained.batches(step.rank, step.world)

    def _reduce(self, step: Step) -> None:
        self._check_latch()
        if self._gradients is not None:
            shards = 1 if self._replica is None else self._replica.shards  # they have averaged by themselves
            self._gradients.reduce(self._course.peers, self._trained.micro_batches_of(step.world) // shards)
        if self._outer is not None:
            self._outer.reduce(self.group)
        self._course.reduced()

    def _agree(self, flag: bool) -> Agreement:
        self._check_latch()
        return self._course.agreements.agree(self.group, flag)

    def _commit(self, step: Step) -> None:
        self._check_latch()
        self._course.commit(step.number)
        step.committed = True
        _sync_points.reached("committed", self.slot, step.number + 1, committed=step.number)
        self._keeping.committed(self.committed, self.rank)

    def _check_latch(self) -> None:
        if self._latch.error is not None:
            raise StepDiscarded from self._latch.error

    def _end(self, step: Step, error: BaseException | None) -> None:
        if isinstance(error, StepDiscarded):
            error = self._latch.error
        if not step.committed and error is None:
            error = RuntimeError(f"step {step.number}: left without optimizer_step() or commit()")
            self._give_up(error)
            raise error
        if error is not None or self._course.is_standing:
            done = self._course.recover(error)
            step.reason = done.reason or "members have changed"
            step.committed = self.committed >= step.number and (step.committed or not done.restored)
        self._tell_progress()

    def _give_up(self, error: BaseException) -> None:
        self._broken = error
        said = str(error).partition("\n")[0]
        self._membership.leave(f"left by {type(error).__name__}: {said}")

    def _went_on(self, recovery: Recovery) -> None:
        self.recoveries.append(recovery)
        if self._on_recovery is not None:
            self._on_recovery(recovery)

    def _tell_progress(self) -> None:
        then, committed = self._last_told
        now = time.monotonic()
        if now - then >= _PROGRESS_EVERY:
            self._last_told = (now, self.committed)
            done = max(0, self.committed - committed)  # the job may have gone back to a checkpoint
            self._membership.progress(self.committed, done / (now - then))
