"""What has to hold in every schedule. The observer sees everything at once, as nobody in the job does."""

from __future__ import annotations

from dataclasses import dataclass, field

from pycomms.ft.core.messages import EpochId, Form, MemberId
from pycomms.ft.core.recovery import Plan


class ViolationError(Exception):
    """An invariant does not hold."""


@dataclass
class Observer:
    """Attributes:
    epochs: every membership that was announced, with its members.
    formed: the newest epoch in which a group stood.
    committed: what was committed as a step in an epoch, as a digest of all steps up to it.
    """

    min_ranks: int
    epochs: dict[EpochId, tuple[MemberId, ...]] = field(default_factory=dict)
    formed: EpochId | None = None
    committed: dict[tuple[EpochId, int], int] = field(default_factory=dict)
    settled: dict[EpochId, tuple[int, int]] = field(default_factory=dict)
    given_up: int = 0
    restored: int = 0
    done: bool = False

    def announced(self, form: Form, known_dead: set[MemberId]) -> None:
        members = tuple(seat.member for seat in form.seats)
        before = self.epochs.setdefault(form.epoch, members)
        if before is not members:  # told again, by a coordinator that has come back
            if before != members:
                raise ViolationError(f"epoch {form.epoch} has two lists of members: {before} and {members}")
            return
        if len(set(members)) != len(members) or len({seat.slot for seat in form.seats}) != len(members):
            raise ViolationError(f"epoch {form.epoch} has a member or a slot twice: {members}")
        dead = known_dead & set(members)
        if dead:
            raise ViolationError(f"epoch {form.epoch} has members that are known dead: {dead}")
        if len(members) < self.min_ranks and not self.done:
            raise ViolationError(f"epoch {form.epoch} has {len(members)} members, min_ranks is {self.min_ranks}")
        if form.previous is not None and form.previous >= form.epoch:
            raise ViolationError(f"epoch {form.epoch} comes after {form.previous}")

    def stood(self, epoch: EpochId) -> None:
        if self.formed is not None and epoch < self.formed:
            raise ViolationError(f"split brain: the group of epoch {epoch} was made after that of {self.formed}")
        self.formed = epoch

    def operated(self, epoch: EpochId) -> None:
        """All members of the epoch have come to an operation."""
        if self.formed is not None and epoch < self.formed:
            raise ViolationError(f"split brain: epoch {epoch} works though {self.formed} has been formed")

    def took(self, epoch: EpochId, step: int, digest: int) -> None:
        """A member has committed a step that was voted for in the epoch."""
        before = self.committed.setdefault((epoch, step), digest)
        if before != digest:
            raise ViolationError(f"step {step} of epoch {epoch} was committed on different histories")

    def has_settled(self, epoch: EpochId, committed: int, digest: int) -> None:
        before = self.settled.setdefault(epoch, (committed, digest))
        if before != (committed, digest):
            raise ViolationError(f"members begin epoch {epoch} with different states: {before}, {(committed, digest)}")

    def planned(self, form: Form, plan: Plan, positions: dict[MemberId, tuple[int, bool]]) -> None:
        """Of the members that are alive: what they have committed, and whether they have trained."""
        for rank, seat in enumerate(form.seats):
            committed, trained = positions.get(seat.member, (0, False))
            if not trained:
                continue
            if committed > plan.base:
                raise ViolationError(
                    f"epoch {form.epoch} goes back to {plan.base}, {seat.member} committed {committed}"
                )
            if rank in plan.restoring:
                raise ViolationError(f"epoch {form.epoch}: {seat.member} has trained and has to restore")
