"""How the group of this process gets from one epoch to the next: by what the coordinator says, and a regroup."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Protocol

import torch.distributed as dist

import pycomms
from pycomms.ft import _sync_points
from pycomms.ft._losses import RECOVERABLE, Loss, name_of, suspects
from pycomms.ft.core.messages import (
    ALL_DONE,
    IS_DONE,
    NOBODY_JOINS,
    Announce,
    Change,
    EpochId,
    Event,
    Form,
    Leaving,
    MemberId,
    Notice,
    Position,
    Progress,
    Ready,
    Refused,
    Seat,
    Settled,
    Verdict,
)
from pycomms.ft.core.timeouts import Timeouts
from pycomms.ft.errors import AllDone, CoordinatorLost, JobEnded
from pycomms.process_group import _tables

_ON_ITS_WAY = 0.2
"""Seconds for which what was said is not said again: a request to stop that crosses it asks for nothing else."""


class Link(Protocol):
    """To the coordinator, by whatever way. `receive` is called by one thread, `send` by any."""

    def send(self, event: Event) -> None: ...

    def receive(self, timeout: timedelta) -> Notice | None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Which process this is, for the coordinator."""

    member: MemberId
    slot: int | None
    pid: int


class Membership:
    """Used by the thread that trains. A thread of its own hears what the coordinator says."""

    def __init__(
        self, link: Link, identity: Identity, timeouts: Timeouts, min_ranks: int, group: dist.ProcessGroup
    ) -> None:
        self.group = group
        self.form: Form | None = None
        self.slot = identity.slot if identity.slot is not None else 0
        self._link = link
        self._identity = identity
        self._timeouts = timeouts
        self._min_ranks = min_ranks
        self._position = Position()
        self._inbox: queue.SimpleQueue[Form | Refused | BaseException] = queue.SimpleQueue()
        self._chosen: Sequence[Seat] = ()
        self._choose: Callable[[Sequence[Seat]], Sequence[Seat]] | None = None
        self._on_interrupt: Callable[[], None] | None = None
        self._fall_back: Callable[[Sequence[Seat]], Position | None] = lambda seats: None
        self._lock = threading.Lock()
        self._news = threading.Condition(self._lock)
        self._change: Change | None = None
        self._said: Ready | None = None  # under the lock: while it stands still
        self._said_at = 0.0
        self._tried: EpochId | None = None  # under the lock: the last epoch that was or is being formed
        self._is_in_group = False  # under the lock: it trains, or forms a group, and the listener may interrupt it
        self._is_closed = threading.Event()
        self._listener = threading.Thread(target=self._listen, name="pycomms-ft-notices", daemon=True)
        self._listener.start()

    @property
    def rank(self) -> int:
        return self.group.rank()

    @property
    def world(self) -> int:
        return self.group.size()

    @property
    def seats(self) -> Sequence[Seat]:
        """Of the group, by rank."""
        return self._chosen

    @property
    def is_in(self) -> bool:
        """Whether this member is in the group of the epoch, as all are but those whose replica is not whole."""
        return any(seat.member == self._identity.member for seat in self._chosen)

    def divide(
        self,
        choose: Callable[[Sequence[Seat]], Sequence[Seat]],
        on_interrupt: Callable[[], None],
        fall_back: Callable[[Sequence[Seat]], Position | None],
    ) -> None:
        """Not all members of an epoch are in its group. To be called before any other.

        Args:
            choose: who is, the same on all members.
            on_interrupt: called by another thread when whoever waits in other groups must not wait on.
            fall_back: with what this member had better come, where what all bring is no whole state; None: as it is.
        """
        self._choose = choose
        self._on_interrupt = on_interrupt
        self._fall_back = fall_back

    @property
    def change(self) -> Change | None:
        """What the coordinator wants of this epoch; None: that it goes on."""
        return self._change

    def announcement(self) -> Announce:
        """What a coordinator is told that does not know this member, now or after it has come back."""
        form = self.form
        return Announce(
            member=self._identity.member,
            slot=self._identity.slot,
            pid=self._identity.pid,
            handle=self._handle(),
            position=self._position,
            min_ranks=self._min_ranks,
            epoch=form.epoch if form else None,
            seats=form.seats if form else (),
        )

    def join(self, position: Position) -> Form:
        """Waits for the first epoch that this process is in, and forms it.

        Raises:
            JobEnded: there is no place for it.
            CoordinatorLost: it was not told anything within the deadline.
        """
        self._position = position
        self._link.send(self.announcement())
        return self._next(position)

    def stand(self, position: Position, loss: Loss) -> Form:
        """Ends the epoch here, waits for the next one and forms it. Raises as :meth:`join` does."""
        form = self.form
        assert form is not None, "no epoch to leave"
        self._hold()
        self._ready(form.epoch, position, loss)
        return self._next(position)

    def stand_by(self, position: Position) -> Form:
        """Waits outside of the group until the epoch is to end, then for the next one. Raises as :meth:`join` does."""
        form = self.form
        assert form is not None, "no epoch to wait in"
        self.settled(0.0)
        patience = self._timeouts.rejoin + self._timeouts.recovery_deadline
        with self._news:
            is_over = IS_DONE in form.died.values()
            heard = is_over or self._news.wait_for(self._has_news, patience.total_seconds())
            change = self._change
        if not heard:
            raise CoordinatorLost(
                f"slot {self.slot} has waited for the rest of its replica for {patience.total_seconds():.1f} s"
            )
        if is_over or (change is not None and change.reason == NOBODY_JOINS):
            raise AllDone("the others are done, and the replica of this member was not whole")
        return self.stand(position, Loss(suspects=(), reason="" if change is None else change.reason))

    def _has_news(self) -> bool:
        return self._change is not None or not self._inbox.empty()

    def settled(self, seconds: float) -> None:
        """This member trains in the epoch."""
        form = self.form
        assert form is not None
        self._link.send(Settled(member=self._identity.member, epoch=form.epoch, seconds=seconds))

    def moved_to(self, position: Position) -> None:
        """What is announced when the coordinator comes back."""
        self._position = position

    def progress(self, committed: int, steps_per_second: float) -> None:
        self._link.send(Progress(member=self._identity.member, committed=committed, steps_per_second=steps_per_second))

    def leave(self, reason: str) -> None:
        if self._is_closed.is_set():
            return
        self._hold()
        self._link.send(Leaving(member=self._identity.member, reason=reason))
        self._is_closed.set()
        self._link.close()
        self._listener.join(timeout=5)

    def loss_of(self, error: BaseException | None) -> Loss:
        """Whom an error of the epoch's group accuses; None: nobody, the coordinator has asked."""
        change = self._change
        reason = "" if error is None else str(error)
        if change is not None and (change.died or not reason):
            died = "; ".join(f"{name_of(member, self.seats)} ended: {how}" for member, how in change.died.items())
            reason = died or change.reason
        return Loss(suspects=suspects(error, self.seats), reason=reason)

    def _next(self, position: Position) -> Form:
        while True:
            form = self._await_form(position)
            if self._choose is not None and position.in_doubt is not None and self._has_missed(form):
                position = replace(position, in_doubt=None)
                self._ready(form.epoch, position, Loss(suspects=(), reason="it has not heard of the epoch before"))
                continue
            fallen_back = self._fall_back(form.seats)
            if fallen_back is not None:
                position = fallen_back
                with self._lock:
                    self._tried = form.epoch
                self._ready(form.epoch, position, Loss(suspects=(), reason="it goes back to a checkpoint"))
                continue
            chosen = form.seats if self._choose is None else self._choose(form.seats)
            is_in = any(seat.member == self._identity.member for seat in chosen)
            with self._lock:
                self._tried, self._is_in_group = form.epoch, is_in
            try:
                if is_in:
                    self._regroup(form, chosen)
            except RECOVERABLE as err:
                self._hold()
                self._ready(form.epoch, position, Loss(suspects=suspects(err, chosen), reason=str(err)))
                continue
            with self._lock:
                self.form, self._chosen = form, chosen
                self.slot = next(seat.slot for seat in form.seats if seat.member == self._identity.member)
                if self._change is not None and self._change.epoch != form.epoch:
                    self._change = None
                self._said = None
            return form

    def _regroup(self, form: Form, chosen: Sequence[Seat]) -> None:
        _sync_points.reached("regrouping", self.slot, self._position.committed + 1)
        handles = [seat.handle for seat in chosen]
        pycomms.regroup(self.group, uuid=form.epoch.uuid, handles=handles, timeout=self._timeouts.regroup).wait()

    def _has_missed(self, form: Form) -> bool:
        """Between the epochs that this member knows of and this one there was another.

        If it was to wait in that one, the others may have done the step again that it is in doubt about.
        """
        return form.previous is not None and self._tried is not None and form.previous > self._tried

    def _await_form(self, position: Position) -> Form:
        """The next epoch that was decided with this position known."""
        patience = self._timeouts.rejoin + self._timeouts.recovery_deadline
        deadline = time.monotonic() + patience.total_seconds()
        while True:
            try:
                notice = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise CoordinatorLost(
                    f"member {self._identity.member.nonce} has heard of no epoch for {patience.total_seconds():.1f} s"
                ) from None
            if isinstance(notice, BaseException):
                raise CoordinatorLost("the link to the coordinator has failed") from notice
            if isinstance(notice, Refused):
                if notice.verdict is Verdict.ENDED and notice.reason == ALL_DONE:
                    raise AllDone(ALL_DONE)
                raise JobEnded(f"{notice.verdict.value}: {notice.reason}")
            own = [seat for seat in notice.seats if seat.member == self._identity.member]
            is_new = self._tried is None or notice.epoch > self._tried
            if is_new and own and own[0].position == position and own[0].handle == self._handle():
                return notice
            # Decided before the coordinator knew what this member has said: it is said again.
            self._link.send(self._said or self.announcement())

    def _ready(self, epoch: EpochId, position: Position, loss: Loss) -> None:
        self._position = position
        said = Ready(
            member=self._identity.member,
            epoch=epoch,
            handle=self._handle(),
            position=position,
            suspects=loss.suspects,
            reason=loss.reason,
        )
        with self._lock:
            self._said, self._said_at = said, time.monotonic()
        self._link.send(said)

    def _handle(self) -> str:
        return pycomms.regroup_handle(self.group)

    def _hold(self) -> None:
        with self._lock:
            self._is_in_group = False

    def _listen(self) -> None:
        slice_ = self._timeouts.recovery_deadline
        while not self._is_closed.is_set():
            try:
                notice = self._link.receive(slice_)
            except Exception as err:  # whatever it is, whoever waits for the coordinator must not wait on
                if not self._is_closed.is_set():
                    self._inbox.put(err)
                    self._tell_who_waits()
                return
            if isinstance(notice, (Form, Refused)):
                self._inbox.put(notice)
                self._leave_for(notice)
                self._tell_who_waits()
            elif isinstance(notice, Change):
                self._take(notice)
                self._tell_who_waits()

    def _leave_for(self, notice: Form | Refused) -> None:
        """A newer epoch than the one that this member is in, or forms, or no place in any: it has to stand still."""
        with self._lock:
            if self._is_in_group and (isinstance(notice, Refused) or self._tried is None or notice.epoch > self._tried):
                self._interrupt()

    def _tell_who_waits(self) -> None:
        with self._news:
            self._news.notify_all()

    def _interrupt(self) -> None:
        """Under the lock. Whoever waits in the group raises now."""
        self._is_in_group = False
        backend: Any = _tables.backend_of(self.group, "ft")
        backend.abort()
        if self._on_interrupt is not None:
            self._on_interrupt()

    def _take(self, change: Change) -> None:
        with self._lock:
            form = self.form
            if form is None or change.epoch < form.epoch:
                return
            self._change = change
            said = self._said if time.monotonic() - self._said_at > _ON_ITS_WAY else None
            # A death on this host is noticed by whoever waits. One on a host that was cut off takes longer, and the
            # coordinator may know of it first; of a member that stands still the group knows nothing.
            is_seen_here = change.died and all(one.host == self._identity.member.host for one in change.died)
            if change.broken and not is_seen_here and self._is_in_group and change.epoch == self._tried:
                self._interrupt()
        if said is not None:  # the coordinator may have lost it
            self._link.send(said)
