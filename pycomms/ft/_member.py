"""What a session needs to know of the job that it is in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import torch.distributed as dist

from pycomms.ft.core.messages import Change, Form, Position, Seat

if TYPE_CHECKING:
    from pycomms.ft._losses import Loss


class Membership(Protocol):
    """Who is in, and how that changes: by a coordinator, or not at all."""

    group: dist.ProcessGroup
    slot: int

    def divide(
        self,
        choose: Callable[[Sequence[Seat]], Sequence[Seat]],
        on_interrupt: Callable[[], None],
        fall_back: Callable[[Sequence[Seat]], Position | None],
    ) -> None: ...

    @property
    def is_in(self) -> bool: ...

    @property
    def rank(self) -> int: ...

    @property
    def world(self) -> int: ...

    @property
    def seats(self) -> Sequence[Seat]: ...

    @property
    def change(self) -> Change | None: ...

    def join(self, position: Position) -> Form: ...

    def stand(self, position: Position, loss: Loss) -> Form: ...

    def stand_by(self, position: Position) -> Form: ...

    def loss_of(self, error: BaseException | None) -> Loss: ...

    def settled(self, seconds: float) -> None: ...

    def moved_to(self, position: Position) -> None: ...

    def progress(self, committed: int, steps_per_second: float) -> None: ...

    def leave(self, reason: str) -> None: ...
