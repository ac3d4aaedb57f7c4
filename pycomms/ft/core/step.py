"""What a member does from step to step: one table. It says what to do; doing it is the session's part.

    COMPUTING ─reduced─► REDUCED ─vote─► VOTED ─all─► COMPUTING (committed)
        │ failed            │ failed       │ failed: in doubt
        ▼                   ▼              ▼
      STANDING ─form─► REGROUPING ─formed─► RESTORING ─restored─► COMPUTING

A member is in doubt from its vote until it knows how the vote has ended. Whoever has not voted may give the step up at
any time, for without its vote nobody commits it. Whoever is in doubt waits for the next epoch, whose plan says which.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from enum import Enum

from pycomms.ft.core.messages import Position, Standing
from pycomms.ft.core.recovery import Plan


class Stage(Enum):
    STANDING = "standing"  # announced or ready: waits for an epoch
    REGROUPING = "regrouping"
    RESTORING = "restoring"  # until all have the state of the base
    COMPUTING = "computing"
    REDUCED = "reduced"
    VOTED = "voted"
    CLOSING = "closing"  # has voted that all steps are done
    DONE = "done"


class Happened(Enum):
    FORM = "form"  # an epoch was announced that this member is in
    FORMED = "formed"  # its group stands
    LOADING = "loading"  # the state is being overwritten
    RESTORED = "restored"  # this member has the state of the base, if it had not before
    REDUCED = "reduced"  # the gradients of all are here
    VOTE = "vote"  # the member says that it can commit the step
    END = "end"  # no step is left to do, and the member says so
    ALL = "all"  # the vote has passed
    ALL_AND_STOP = "all, and stop"  # and somebody was asked to stop
    NOT_ALL = "not all"  # somebody has voted against
    FAILED = "failed"  # an operation of the group, or the coordinator says that it must
    REMINDED = "reminded"  # the coordinator asks again, or repeats an epoch that could not be formed


class Do(Enum):
    REGROUP = "regroup"
    RESTORE = "restore"  # fetch the state, or serve it
    SETTLE = "settle"  # tell the coordinator, and train
    VOTE = "vote"
    COMMIT = "commit"  # take the optimizer's step with the gradients that are here
    DISCARD = "discard"  # give up what the step has changed
    STAND = "stand"  # tell the coordinator the position and whom the failure names, and wait
    LEAVE = "leave"


TABLE: dict[tuple[Stage, Happened], tuple[Stage, tuple[Do, ...]]] = {
    (Stage.STANDING, Happened.FORM): (Stage.REGROUPING, (Do.REGROUP,)),
    (Stage.STANDING, Happened.REMINDED): (Stage.STANDING, (Do.STAND,)),
    (Stage.REGROUPING, Happened.FORMED): (Stage.RESTORING, (Do.RESTORE,)),
    (Stage.REGROUPING, Happened.FAILED): (Stage.STANDING, (Do.STAND,)),
    (Stage.RESTORING, Happened.LOADING): (Stage.RESTORING, ()),
    (Stage.RESTORING, Happened.RESTORED): (Stage.COMPUTING, (Do.SETTLE,)),
    (Stage.RESTORING, Happened.FAILED): (Stage.STANDING, (Do.STAND,)),
    (Stage.COMPUTING, Happened.REDUCED): (Stage.REDUCED, ()),
    (Stage.COMPUTING, Happened.FAILED): (Stage.STANDING, (Do.STAND,)),
    (Stage.COMPUTING, Happened.END): (Stage.CLOSING, (Do.VOTE,)),
    (Stage.REDUCED, Happened.VOTE): (Stage.VOTED, (Do.VOTE,)),
    (Stage.REDUCED, Happened.FAILED): (Stage.STANDING, (Do.STAND,)),
    (Stage.VOTED, Happened.ALL): (Stage.COMPUTING, (Do.COMMIT,)),
    (Stage.VOTED, Happened.ALL_AND_STOP): (Stage.STANDING, (Do.COMMIT, Do.STAND)),
    (Stage.VOTED, Happened.NOT_ALL): (Stage.COMPUTING, (Do.DISCARD,)),
    (Stage.VOTED, Happened.FAILED): (Stage.STANDING, (Do.STAND,)),
    (Stage.CLOSING, Happened.ALL): (Stage.DONE, (Do.LEAVE,)),
    (Stage.CLOSING, Happened.ALL_AND_STOP): (Stage.DONE, (Do.LEAVE,)),
    (Stage.CLOSING, Happened.FAILED): (Stage.STANDING, (Do.STAND,)),
}


class OutOfTurnError(Exception):
    """Something has happened that cannot happen at this stage."""


@dataclass(frozen=True, kw_only=True)
class Progression:
    """Where a member is.

    Attributes:
        is_open: a step is begun, and neither committed nor given up.
    """

    stage: Stage = Stage.STANDING
    position: Position = field(default_factory=Position)
    is_open: bool = False


def advance(now: Progression, happened: Happened) -> tuple[Progression, tuple[Do, ...]]:
    """The next stage, and what is to be done, in this order. `FORMED` leads to :func:`recover` as well.

    Raises:
        OutOfTurnError: the table has no such entry.
    """
    entry = TABLE.get((now.stage, happened))
    if entry is None:
        raise OutOfTurnError(f"{happened.value!r} has happened while {now.stage.value}")
    stage, actions = entry
    position, is_open = now.position, now.is_open
    if happened is Happened.VOTE:
        position = _at(position.committed, position.committed + 1, position.standing)
    elif happened is Happened.LOADING:
        position = _at(position.committed, position.in_doubt, Standing.HOLLOW)
    elif happened is Happened.END:
        is_open = False
    elif Do.COMMIT in actions:
        position = _at(position.committed + 1, None, position.standing)
        is_open = happened is Happened.ALL
    elif Do.DISCARD in actions:
        position = _at(position.committed, None, position.standing)
    return Progression(stage=stage, position=position, is_open=is_open), actions


def recover(now: Progression, plan: Plan, rank: int) -> tuple[Progression, tuple[Do, ...]]:
    """What the plan of the epoch wants of this rank, before it restores or serves."""
    position = now.position
    if _is_among(rank, plan.committing):
        committed = _at(position.committed + 1, None, position.standing)
        return Progression(stage=now.stage, position=committed), (Do.COMMIT,)
    given_up = _at(position.committed, None, position.standing)
    return Progression(stage=now.stage, position=given_up), (Do.DISCARD,) if now.is_open else ()


def restored(now: Progression, plan: Plan, rank: int) -> tuple[Progression, tuple[Do, ...]]:
    """This rank has the state of the base."""
    after, actions = advance(now, Happened.RESTORED)
    committed = plan.base if _is_among(rank, plan.restoring) else after.position.committed
    return Progression(stage=after.stage, position=_at(committed, None, Standing.TRAINED), is_open=True), actions


def _at(committed: int, in_doubt: int | None, standing: Standing) -> Position:
    return Position(committed=committed, in_doubt=in_doubt, standing=standing)


def _is_among(rank: int, ranks: tuple[int, ...]) -> bool:
    """The ranks of a plan are in order: with 10,000 members, each of which asks, looking at all would take seconds."""
    at = bisect_left(ranks, rank)
    return at < len(ranks) and ranks[at] == rank
