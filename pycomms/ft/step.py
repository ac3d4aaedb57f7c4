"""One step of a training: done by all members, or by none."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pycomms.ft._losses import RECOVERABLE
from pycomms.ft.agreement import Agreement

if TYPE_CHECKING:
    from typing_extensions import Self

    from pycomms.ft.session import Session


class StepDiscarded(Exception):
    """Leaves the block of a step that is not committed; the block's end takes it."""


class Step:
    """What :meth:`Session.steps` yields. Use it as a context: ``with step: …``.

    Attributes:
        number: from 1. A step that was discarded is given again, with the same number and the same samples.
        attempt: how many times it has been tried before, from 0.
        world: members of the group that it began with.
        rank: of this process among them.
        committed: whether it has been committed, known after the block.
        reason: why it was not, or why members changed behind it; empty where nothing has happened.
    """

    def __init__(self, session: Session, number: int, attempt: int) -> None:
        self.number = number
        self.attempt = attempt
        self.world = session.world
        self.rank = session.rank
        self.committed = False
        self.reason = ""
        self._session = session
        self._is_open = False
        self._is_reduced = False
        self._batches: Iterator[Any] | None = None

    @property
    def batches(self) -> Iterator[Any]:
        """The micro-batches of this member; a step must use all of them. One, unless ``Session(world="constant")``."""
        if self._batches is None:
            self._batches = self._session._batches_of(self)
        return self._batches

    def reduce_gradients(self) -> None:
        """Averages the gradients over all members; afterwards they may be clipped. Collective.

        Once per step; :meth:`optimizer_step` does it where it was not done.
        """
        self._check_open("reduce_gradients")
        if not self._is_reduced:
            self._session._reduce(self)
            self._is_reduced = True

    def agree(self, flag: bool) -> Agreement:
        """Whether all members say True. Collective.

        Whoever gets an answer gets the same one, whatever happens meanwhile. If somebody dies in the call, the block is
        left and the step done again, with a call that gives what anybody has got before, or asks those who are left. So
        it is for what stays done though the step is not committed: to delete a checkpoint, to tell the world, to stop.
        What matters only if the step is committed is the same on all by a plain collective over ``session.group``.

        Raises:
            RuntimeError: other members do not call it, or are at another call of the step.
        """
        self._check_open("agree")
        return self._session._agree(flag)

    def inner_step(self) -> None:
        """A step of the optimizer, and of the scheduler, on this member alone: where the session has an ``outer``."""
        self._check_open("inner_step")
        self._session._inner_step()

    def optimizer_step(self) -> None:
        """The commit point: all members take the step, or none does. Collective.

        Optimizer, scheduler, scaler and sampler move on where it is committed. Where it is not, the block is left here.
        """
        self._check_open("optimizer_step")
        self.reduce_gradients()
        self._session._commit(self)

    def commit(self) -> None:
        """As :meth:`optimizer_step`, for a program that sums by itself: nothing is reduced. Collective."""
        self._check_open("commit")
        self._session._commit(self)

    def __enter__(self) -> Self:
        if self._is_open or self.committed or self.reason:
            raise RuntimeError(f"step {self.number}: used twice; take the next one from session.steps()")
        self._is_open = True
        self._session._begin(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._is_open = False
        if error is not None and not isinstance(error, (StepDiscarded, *RECOVERABLE)):
            self._session._give_up(error)
            return False
        self._session._end(self, error)
        return True

    def _check_open(self, name: str) -> None:
        if not self._is_open or self.committed:
            state = "committed already" if self.committed else "not in its 'with' block"
            raise RuntimeError(f"step {self.number}: {name}() was called, but the step is {state}")
