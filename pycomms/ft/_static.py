"""A membership that cannot change: where the launcher starts all members again, or the backend cannot regroup."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import torch.distributed as dist

from pycomms.ft._losses import Loss
from pycomms.ft.core.messages import Change, EpochId, Form, MemberId, Position, Seat, Standing
from pycomms.ft.errors import SessionError


class StaticMembership:
    """The members of a group that the program has made. A failure is the end of all; steps and samples are as ever."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.slot = group.rank()
        self.change: Change | None = None
        self.form: Form | None = None
        self.is_in = True
        self._choose: Callable[[Sequence[Seat]], Sequence[Seat]] = lambda seats: seats

    @property
    def rank(self) -> int:
        return self.group.rank()

    @property
    def seats(self) -> Sequence[Seat]:
        return self.form.seats if self.form else ()

    @property
    def world(self) -> int:
        return self.group.size()

    def divide(
        self,
        choose: Callable[[Sequence[Seat]], Sequence[Seat]],
        on_interrupt: Callable[[], None],
        fall_back: Callable[[Sequence[Seat]], Position | None],
    ) -> None:
        self._choose = choose

    def join(self, position: Position) -> Form:
        told: list[Position | None] = [None] * self.world
        dist.all_gather_object(told, position, group=self.group)
        seats = tuple(
            Seat(
                member=MemberId("", str(rank)), slot=rank, handle="", position=one or Position(standing=Standing.FRESH)
            )
            for rank, one in enumerate(told)
        )
        self.form = Form(epoch=EpochId(0, 1), previous=None, seats=seats, reason=f"started by process {os.getppid()}")
        if len(self._choose(seats)) < len(seats):
            raise ValueError(
                f"the group has {len(seats)} members: not a number of whole replicas, or fewer than min_ranks"
            )
        return self.form

    def stand_by(self, position: Position) -> Form:
        raise SessionError("there is nobody to wait for")

    def stand(self, position: Position, loss: Loss) -> Form:
        raise SessionError(
            f"a member was lost and nobody can form a new group: {loss.reason}. Started by `pycomms run` the others "
            "would go on (torch 2.14); when all are started again, they begin from checkpoints= of the session, if any"
        )

    def loss_of(self, error: BaseException | None) -> Loss:
        return Loss(suspects=(), reason="" if error is None else str(error))

    def settled(self, seconds: float) -> None: ...

    def moved_to(self, position: Position) -> None: ...

    def progress(self, committed: int, steps_per_second: float) -> None: ...

    def leave(self, reason: str) -> None: ...
