"""What the analyzer found, as plain data: the reports turn it into text, JSON, HTML.

Must not know: how it was found, how it is printed.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from pycomms.flight_recorder._model import UNKNOWN_RANK, UNKNOWN_SITE, Site


class Verdict(enum.Enum):
    """What is wrong, if anything."""

    HEALTHY = "HEALTHY"
    MISSING_RANK = "MISSING_RANK"
    OP_MISMATCH = "OP_MISMATCH"
    SIZE_MISMATCH = "SIZE_MISMATCH"
    DTYPE_MISMATCH = "DTYPE_MISMATCH"
    REDOP_MISMATCH = "REDOP_MISMATCH"
    ROOT_MISMATCH = "ROOT_MISMATCH"
    SPLIT_MISMATCH = "SPLIT_MISMATCH"
    ORDER_SWAP = "ORDER_SWAP"
    ORDER_DEADLOCK = "ORDER_DEADLOCK"
    P2P_UNMATCHED = "P2P_UNMATCHED"
    P2P_DEADLOCK = "P2P_DEADLOCK"
    P2P_TAG_MISMATCH = "P2P_TAG_MISMATCH"
    P2P_SIZE_MISMATCH = "P2P_SIZE_MISMATCH"
    ALL_JOINED_NOT_DONE = "ALL_JOINED_NOT_DONE"
    DEVICE_QUEUE_BLOCKED = "DEVICE_QUEUE_BLOCKED"
    COMPLETION_STUCK = "COMPLETION_STUCK"
    RANK_DIED = "RANK_DIED"
    RANK_RESTARTED = "RANK_RESTARTED"
    REJECTED_OP = "REJECTED_OP"
    SLOW_RANK = "SLOW_RANK"
    INSUFFICIENT_DATA = "INSUFFICIENT_DATA"


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupRef:
    """The process group in question. ranks: global."""

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()

    @property
    def label(self) -> str:
        """What a reader recognises: the description when there is one that says something."""
        unnamed = self.description in ("", "undefined", "default_pg")
        return (self.name or "world") if unnamed and self.description != "default_pg" else self.description


@dataclass(frozen=True, kw_only=True, slots=True)
class OpRef:
    """The operation in question. sequence: of the group's collectives, or of the pair's messages when p2p.

    source, destination: global ranks of a message; UNKNOWN_RANK for collectives.
    """

    kind: str
    sequence: int
    p2p: bool = False
    source: int = UNKNOWN_RANK
    destination: int = UNKNOWN_RANK


@dataclass(frozen=True, kw_only=True, slots=True)
class RanksAt:
    """Where in the user's program some ranks issued an operation. op: what they issued there."""

    ranks: tuple[int, ...]
    site: Site
    op: OpRef


@dataclass(frozen=True, kw_only=True, slots=True)
class Side:
    """Ranks that agree with each other, in a disagreement. what: what they did."""

    ranks: tuple[int, ...]
    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Victims:
    """Ranks that wait because of the fault, in the operation op of a group."""

    group: GroupRef
    ranks: tuple[int, ...]
    op: OpRef


@dataclass(frozen=True, kw_only=True, slots=True)
class Edge:
    """The rank waiter, stuck in op of group, waits for these ranks."""

    waiter: int
    group: GroupRef
    op: OpRef
    waits_for: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One fault.

    root_ranks: empty when nobody is to blame or it cannot be told. culprit_sites: where the root ranks issued the
    operation in question, or what they did last instead of it. victim_sites: where the others did. sides: in a
    mismatch, largest first.
    what: one sentence on what happened. next_step: what to do about it. would_decide: what is missing to tell more.
    confidence: 0 to 1. silent: the operation ended all the same, with wrong results.
    """

    verdict: Verdict
    root_ranks: tuple[int, ...] = ()
    group: GroupRef | None = None
    op: OpRef | None = None
    culprit_sites: tuple[RanksAt, ...] = ()
    victim_sites: tuple[RanksAt, ...] = ()
    victims: tuple[Victims, ...] = ()
    sides: tuple[Side, ...] = ()
    what: str = ""
    next_step: str = ""
    would_decide: str = ""
    confidence: float = 1.0
    silent: bool = False

    @property
    def victim_ranks(self) -> tuple[int, ...]:
        return tuple(sorted({rank for some in self.victims for rank in some.ranks}))


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspicion:
    """What would be a fault if it lasted: of a job that was looked at while it ran. fault_ns: for how long it may."""

    finding: Finding
    lasted_ns: int
    fault_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Replaced:
    """A process that was killed, and whose place another process of its rank has taken. op: the last that it issued."""

    rank: int
    pid: int
    host: str
    op: OpRef | None = None
    site: Site = UNKNOWN_SITE


@dataclass(frozen=True, kw_only=True, slots=True)
class Analysis:
    """The findings, most important first: none is HEALTHY. suspicions: what may become one.

    replaced: processes that died before; what has become of the job since is in the findings.

    ranks: those with a record. absent_ranks: those that some group names, without a record. edges: the wait-for graph.
    degraded: some input was missing or damaged, so that less could be told.
    """

    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    degraded: bool = False
    ranks: tuple[int, ...] = ()
    absent_ranks: tuple[int, ...] = ()
    groups: tuple[GroupRef, ...] = ()
    entries: int = 0
    edges: tuple[Edge, ...] = field(default=())
    suspicions: tuple[Suspicion, ...] = ()
    replaced: tuple[Replaced, ...] = ()

    @property
    def verdict(self) -> Verdict:
        return self.findings[0].verdict if self.findings else Verdict.HEALTHY

    @property
    def root_ranks(self) -> tuple[int, ...]:
        return self.findings[0].root_ranks if self.findings else ()
