"""What members, hosts and the coordinator tell each other. Values, without a word about how they travel.

A member is one process that trains. A host is the agent that speaks for the members beside it; a member that nobody
speaks for is a host of its own. An epoch is one membership: who is in, with which rank.

    member → coordinator    Announce, Ready, Settled, Progress, Leaving
    host   → coordinator    Died, Beat
    coordinator → member    Change, Form, Refused
    coordinator → host      Evict, Teach
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

DONE = "done"
IS_DONE = "it is done"
"""How a member has ended that has left as ``DONE``, in `Form.died`."""
ALL_DONE = "all members are done"
"""Why a job has ended, where all of an epoch have left as ``DONE`` or are dead."""
NOBODY_JOINS = "others are done: nobody joins any more"
"""The reason of a `Change` and of a `Refused` when the first has left as ``DONE``."""


class EpochId(NamedTuple):
    """Names a membership, and is never used twice: a coordinator that starts again has a greater ``boot``."""

    boot: int
    counter: int

    @property
    def uuid(self) -> int:
        """The uuid of the regroup that makes this epoch's group: from 0 to 2**63 - 1."""
        return (self.boot & 0x7FFFFFFF) << 32 | (self.counter & 0xFFFFFFFF)


class MemberId(NamedTuple):
    """A process for as long as it lives: the one that takes its slot afterwards has another ``nonce``."""

    host: str
    nonce: str


class Standing(Enum):
    """What a member brings along."""

    FRESH = "fresh"  # a state that no training has made: others' is better, whatever its number
    LOADED = "loaded"  # a checkpoint: it counts where nobody has trained
    TRAINED = "trained"  # the state of an epoch, which it has settled in
    HOLLOW = "hollow"  # half restored: its own state is lost


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where in the training a member is.

    Attributes:
        committed: the last step that it has committed; 0: none.
        in_doubt: the step that it has voted for and does not know the end of; None: none. Then it is committed + 1, and
            the member still holds all that the step needs to be committed.
        standing: whether its state is worth restoring from.
    """

    committed: int = 0
    in_doubt: int | None = None
    standing: Standing = Standing.FRESH


@dataclass(frozen=True, kw_only=True)
class Announce:
    """A member is there and wants to be in. Again, with its ``epoch``, when the coordinator has come back.

    Attributes:
        slot: its place among all members of the job, from 0; survivors keep it, and whoever takes a dead member's place
            has the same. None: any that is free.
        handle: of the group of this process alone, or of the epoch's.
        epoch: the membership that it is in; None: none yet.
        min_ranks: fewer members than this do not train; the largest that is told counts.
        roster: digest of that membership.
        seats: that membership, told once per host to a coordinator that does not know it.
    """

    member: MemberId
    slot: int | None
    pid: int
    handle: str
    position: Position
    min_ranks: int = 1
    epoch: EpochId | None = None
    roster: str = ""
    seats: tuple[Seat, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A member of an epoch stands still and waits for the next one.

    Attributes:
        epoch: the one that it leaves, or could not form.
        suspects: whom its failed operation names; empty where it has stopped because it was asked to.
        reason: for people.
    """

    member: MemberId
    epoch: EpochId
    handle: str
    position: Position
    suspects: tuple[MemberId, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A member has formed the epoch and has the state of its base: it trains.

    Attributes:
        seconds: from its own failure, or from the request to stop, to here.
    """

    member: MemberId
    epoch: EpochId
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Progress:
    """At most once a second, for those who look: nothing is decided by it."""

    member: MemberId
    committed: int
    steps_per_second: float


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """A member ends because it is done, or because it was told to.

    Attributes:
        reason: for people; but ``DONE`` says that the training is at its end. Whoever says so has committed the last
            step and knows that all have: the others may end it with fewer than they need, and nobody joins any more.
    """

    member: MemberId
    reason: str


@dataclass(frozen=True, kw_only=True)
class Died:
    """The host has seen the end of a member's process.

    Attributes:
        how: such as ``"signal 9 (SIGKILL)"`` or ``"exit code 1"``.
    """

    member: MemberId
    how: str


@dataclass(frozen=True, kw_only=True)
class Beat:
    """The host is there, though nothing has happened."""

    host: str


Event = Announce | Ready | Settled | Progress | Leaving | Died | Beat


class Verdict(Enum):
    """Why a member is not in."""

    FULL = "full"  # all slots are taken
    STALE = "stale"  # its epoch is over and it was declared dead
    DUPLICATE = "duplicate"  # another living process has its slot
    ENDED = "ended"  # the job has ended


@dataclass(frozen=True, kw_only=True)
class Seat:
    """A member's place in an epoch. Its rank is its position among the seats, which are in order of slots."""

    member: MemberId
    slot: int
    handle: str
    position: Position


@dataclass(frozen=True, kw_only=True)
class Change:
    """The epoch is to end: members stop together at the next end of a step, or at once where it is broken.

    A member that stands still already answers with its `Ready`, for the coordinator may have lost it.

    Attributes:
        broken: no step of it can be committed any more: one has died, or has failed and stands still.
    """

    epoch: EpochId
    died: Mapping[MemberId, str] = field(default_factory=dict)
    joining: tuple[MemberId, ...] = ()
    broken: bool = False
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Form:
    """The next epoch. All who are in it regroup, then do what `recovery.plan` says of the positions in it.

    Attributes:
        previous: the one before it; None: the first.
        died: who of the previous one is not in, and how it ended.
        joined: who was not in the previous one.
    """

    epoch: EpochId
    previous: EpochId | None
    seats: tuple[Seat, ...]
    died: Mapping[MemberId, str] = field(default_factory=dict)
    joined: tuple[MemberId, ...] = ()
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A member is not, or no longer, in."""

    member: MemberId
    verdict: Verdict
    reason: str


@dataclass(frozen=True, kw_only=True)
class Evict:
    """A host is to end a member that does not answer: SIGKILL, for it may come back otherwise.

    It answers with `Died`, also where there is no such process any more.
    """

    member: MemberId
    reason: str


@dataclass(frozen=True, kw_only=True)
class Teach:
    """A host is to announce its members again, one of them with the seats: this coordinator is new."""

    epoch: EpochId


Notice = Change | Form | Refused | Evict | Teach
