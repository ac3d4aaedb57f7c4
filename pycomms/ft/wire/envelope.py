"""What is on the way besides the events and notices of pycomms.ft.core.messages. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pycomms.ft.core.launch import HostReport, JobState
from pycomms.ft.core.messages import EpochId, Event, MemberId, Notice, Position, Seat

VERSION = 1
"""Of this protocol. A host with another one is refused, with both numbers."""


@dataclass(frozen=True, kw_only=True)
class Hello:
    """The first message of a connection, from the host to the coordinator or from a worker to its agent.

    Attributes:
        host: as in MemberId.
        instance: random, of the process that speaks: tells one that connects again from another with the same name.
        nonce: of the worker that speaks, as in MemberId; empty: the host itself.
        heard: the greatest boot that the host knows of another coordinator than the one that it speaks to; 0: none.
    """

    host: str
    instance: str
    nonce: str = ""
    version: int = VERSION
    heard: int = 0


@dataclass(frozen=True, kw_only=True)
class Welcome:
    """The first answer of a coordinator: it listens to this host from here on."""

    boot: int


@dataclass(frozen=True, kw_only=True)
class AnnounceAgain:
    """From an agent to its members: it has lost the coordinator and found it, or another one. The link answers it.

    Attributes:
        with_seats: the coordinator does not know the epoch, and this member is to tell who is in it. One a host.
    """

    reason: str = ""
    with_seats: bool = False


@dataclass(frozen=True, kw_only=True)
class SendWhole:
    """From a member: this epoch came as a delta against one that it does not know."""

    member: MemberId
    epoch: EpochId


@dataclass(frozen=True, kw_only=True)
class FormDelta:
    """A Form, told to somebody who was told the one before: its size grows with what has changed.

    A survivor keeps its slot, and its handle follows from its old one (deltas.py). Its position is ``usual``.

    Attributes:
        digest: of the whole Form's epoch and seats.
        gone: slots of the previous epoch that are empty now.
        seats: those who are new, or whose handle is not what follows.
        moved: positions, by slot, of those who are not where most are.
    """

    epoch: EpochId
    previous: EpochId
    digest: bytes
    gone: tuple[int, ...]
    seats: tuple[Seat, ...]
    usual: Position
    moved: Mapping[int, Position] = field(default_factory=dict)
    died: Mapping[MemberId, str] = field(default_factory=dict)
    joined: tuple[MemberId, ...] = ()
    reason: str = ""


Message = Event | Notice | Hello | Welcome | AnnounceAgain | SendWhole | FormDelta | HostReport | JobState


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A message, and for notices whom of the host it is for.

    Attributes:
        to: nonces of members of the host; empty: the host itself.
    """

    message: Message
    to: tuple[str, ...] = ()
