"""What one process recorded, in one form whatever wrote it: a ring of ours, or a dump of torch's.

Readers make it, the analyzer and the reports use it. Entries are rows of one numpy array, so that 10,000 ranks of
2,000 entries fit into memory; what repeats (signatures, call sites) is kept once and referred to by index. Must not
know: files, torch, verdicts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


class State(enum.IntEnum):
    """How far an operation had come."""

    UNKNOWN = 0
    ISSUED = 1
    RUNNING = 2
    COMPLETED = 3
    FAILED = 4
    TIMED_OUT = 5
    CANCELLED = 6
    REJECTED = 7
    """Refused on the spot: it was never part of the group's sequence."""

    @property
    def has_ended(self) -> bool:
        return self >= State.COMPLETED


class Flag(enum.IntFlag):
    """What else is known about an entry."""

    P2P = 1
    ASYNC = 2
    COALESCED = 4
    """One of several operations that were issued together; they share a sequence number."""
    SIZES_CUT = 8
    """There were more sizes than the record holds."""
    LATE = 16
    """Recording began after the group was made: the sequence number may be too small."""
    RETIRED = 32
    """torch: the watchdog no longer watches it."""
    NO_POST = 64
    """The call has not returned, or it raised."""
    NO_COMPLETION = 128
    """The writer cannot tell when an operation ends: a state before COMPLETED means nothing."""
    TIMES_FOUND = 256
    """Start and end are when somebody looked, not when it happened."""


UNKNOWN_RANK = -1
ANY_SOURCE = -2

ENTRY = np.dtype(
    [
        ("issued_ns", "<i8"),  # of the process's wall clock; 0: not known
        ("started_ns", "<i8"),
        ("ended_ns", "<i8"),
        ("id", "<u4"),  # counts the entries of the process
        ("group", "<u4"),  # index into Record.groups
        ("sequence", "<u4"),  # of the group's collectives, or of its P2P operations; from 1; 0: not known
        ("signature", "<u4"),  # index into Record.signatures
        ("site", "<u4"),  # index into Record.sites; 0: not known
        ("error", "<u4"),  # index into Record.errors; 0: none
        ("timeout_ms", "<u4"),
        ("generation", "<u2"),
        ("flags", "<u2"),  # Flag
        ("state", "u1"),  # State
    ],
    align=True,
)

Entries: TypeAlias = "npt.NDArray[np.void]"


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """What an operation was asked to do: what the ranks of a group must agree on, and what they may not.

    kind: our name of the operation, whatever the backend calls it: ``all_reduce``, ``all_gather_single``, ``send``, ...
    reduction: ``sum``, ``max``, ...; empty where there is none or it was not recorded.
    root, peer: ranks of the group; ``UNKNOWN_RANK``. peer is the other side of a send or recv.
    input_sizes, output_sizes: one shape for each tensor. input_splits, output_splits: of an all_to_all with splits.
    """

    kind: str
    reduction: str = ""
    root: int = UNKNOWN_RANK
    peer: int = UNKNOWN_RANK
    tag: int = 0
    input_sizes: tuple[tuple[int, ...], ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    output_dtypes: tuple[str, ...] = ()
    input_splits: tuple[int, ...] = ()
    output_splits: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """The line of the user's program that issued an operation. stack: its callers, innermost first, if recorded."""

    file: str
    line: int
    function: str = ""
    stack: tuple[tuple[str, int, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else ""


UNKNOWN_SITE = Site(file="", line=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A process group as one process saw it. ranks: global; empty when not recorded.

    last_issued, last_started, last_completed: sequence numbers of collectives, 0 when none or not known: they outlive
    the entries that have been overwritten.
    """

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()
    generation: int = 0
    last_issued: int = 0
    last_started: int = 0
    last_completed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """What one process recorded.

    rank: global; UNKNOWN_RANK when nothing tells. attempt: of the launcher, grows by one with each restart.
    writer: ``ring``, ``pycomms``, ``nccl``, ``gloo``, ``hook``, ``torchcomms``. version: the format's, as written.
    complete: False when the file was cut off; then ``entries`` are those that could be recovered.
    closed: the process took its leave; what it had in flight it had given up. alive: known only where the writer's
    process could be looked at; None otherwise. stopped: alive, and not running: by SIGSTOP, or the shell's job control.
    dropped: entries that were overwritten before. stop_reason: why the record was written, in the writer's words.
    """

    source: str
    writer: str
    version: str = ""
    rank: int = UNKNOWN_RANK
    world_size: int = 0
    host: str = ""
    pid: int = 0
    job: str = ""
    attempt: int = 0
    started_ns: int = 0
    taken_ns: int = 0
    complete: bool = True
    closed: bool = False
    alive: bool | None = None
    stopped: bool = False
    dropped: int = 0
    stop_reason: str = ""
    library: str = ""
    groups: tuple[Group, ...] = ()
    signatures: tuple[Signature, ...] = ()
    sites: tuple[Site, ...] = (UNKNOWN_SITE,)
    errors: tuple[str, ...] = ("",)
    entries: Entries = field(default_factory=lambda: np.zeros(0, ENTRY))
    warnings: tuple[str, ...] = ()
