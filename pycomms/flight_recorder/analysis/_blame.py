"""From who waits for whom to who is to blame: the sinks of the wait-for graph.

Its nodes are ranks, waits and mismatches. A rank points to the waits that it is stuck in, a wait to the ranks that it
lacks, or to the mismatch that explains it. What nothing leads on from is a root cause; all else that leads there are
its victims. Must not know: words.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pycomms.flight_recorder._model import State
from pycomms.flight_recorder.analysis._graph import reaching, sinks
from pycomms.flight_recorder.analysis._job import Job
from pycomms.flight_recorder.analysis._mismatch import Mismatch
from pycomms.flight_recorder.analysis._waits import Wait


class Cause(enum.Enum):
    RANKS = enum.auto()
    """Ranks that others wait for and that wait for nobody."""
    MISMATCH = enum.auto()
    JOINED = enum.auto()
    """A wait that everybody has come to."""
    CYCLE = enum.auto()


@dataclass(slots=True, kw_only=True)
class Root:
    """One root cause. ranks: of RANKS and CYCLE. wait: the operation that shows it best. victims: other waits."""

    cause: Cause
    ranks: tuple[int, ...] = ()
    wait: Wait | None = None
    cycle: list[Wait] = field(default_factory=list)
    mismatch: Mismatch | None = None
    victims: list[Wait] = field(default_factory=list)


def find_roots(job: Job, waits: Sequence[Wait], mismatches: Sequence[Mismatch], excused: Collection[int]) -> list[Root]:
    """excused: ranks that are known to be gone: whatever they were waiting for, they will not come."""
    graph = _Graph(job, waits, mismatches, excused)
    found: list[Root] = []
    lone_ranks: list[int] = []
    for sink in sinks(graph.edges):
        ranks = tuple(graph.ranks[node] for node in sink if node < graph.first_wait)
        inside = [waits[node - graph.first_wait] for node in sink if graph.first_wait <= node < graph.first_mismatch]
        if sink[0] >= graph.first_mismatch:
            mismatch = mismatches[sink[0] - graph.first_mismatch]
            found.append(Root(cause=Cause.MISMATCH, mismatch=mismatch, victims=graph.victims(sink)))
        elif ranks and inside:
            found.append(Root(cause=Cause.CYCLE, ranks=ranks, cycle=inside, victims=graph.victims(sink)))
        elif inside:
            found.append(Root(cause=Cause.JOINED, wait=inside[0], victims=graph.victims(sink)))
        elif sink[0] in graph.awaited:
            lone_ranks.append(ranks[0])
    return found + _together(graph, lone_ranks)


class _Graph:
    def __init__(
        self, job: Job, waits: Sequence[Wait], mismatches: Sequence[Mismatch], excused: Collection[int]
    ) -> None:
        self.waits = waits
        concerned = {rank for wait in waits for rank in (*wait.waiters, *wait.absent, *wait.unknown)}
        self.ranks = sorted(concerned)
        self.first_wait = len(self.ranks)
        self.first_mismatch = self.first_wait + len(waits)
        self.edges: list[list[int]] = [[] for _ in range(self.first_mismatch + len(mismatches))]
        self._node = {rank: node for node, rank in enumerate(self.ranks)}
        explained = {mismatch.group: (mismatch.sequence, place) for place, mismatch in enumerate(mismatches)}
        for place, wait in enumerate(waits):
            node = self.first_wait + place
            for rank in wait.waiters:
                if rank not in excused:
                    self.edges[self._node[rank]].append(node)
            sequence, mismatch = explained.get(wait.group, (0, 0))
            if sequence and not wait.op.p2p and wait.op.sequence >= sequence:
                self.edges[node].append(self.first_mismatch + mismatch)
            elif wait.absent:
                self.edges[node].extend(self._node[rank] for rank in wait.absent)
            elif not _partly_started(wait):
                self.edges[node].extend(self._node[rank] for rank in wait.unknown)
        self._behind_other_work(job)
        self.awaited = {child for node in range(self.first_wait, self.first_mismatch) for child in self.edges[node]}

    def _behind_other_work(self, job: Job) -> None:
        """An operation that all have come to, and some could not start, waits for what those issued before it."""
        first_of: dict[int, tuple[int, int]] = {}
        for place, wait in enumerate(self.waits):
            for rank, row in wait.rows.items():
                first_of[rank] = min(first_of.get(rank, (row, place)), (row, place))
        for place, wait in enumerate(self.waits):
            node = self.first_wait + place
            if self.edges[node] or wait.op.p2p:
                continue
            earlier = {
                first_of[rank][1]
                for rank, state in wait.waiters.items()
                if state <= State.ISSUED and rank in wait.rows and first_of[rank][0] < wait.rows[rank]
            }
            self.edges[node].extend(self.first_wait + other for other in sorted(earlier))

    def victims(self, sink: Collection[int]) -> list[Wait]:
        nodes = reaching(self.edges, sink)
        return [
            self.waits[node - self.first_wait]
            for node in sorted(nodes)
            if self.first_wait <= node < self.first_mismatch
        ]

    def node(self, rank: int) -> int:
        return self._node[rank]


def _partly_started(wait: Wait) -> bool:
    """Some ranks' devices have begun and a few have not: these are suspects, whatever a lost record would say."""
    queued = sum(state <= State.ISSUED for state in wait.waiters.values())
    return 0 < queued < len(wait.waiters) / 2


def _together(graph: _Graph, lone_ranks: Sequence[int]) -> list[Root]:
    """Root ranks that are missing from the same operation are one fault."""
    roots = set(lone_ranks)
    by_wait: dict[int, list[int]] = {}
    chosen: dict[int, Wait] = {}
    missing_in: dict[int, list[Wait]] = {rank: [] for rank in lone_ranks}
    for wait in graph.waits:
        for rank in wait.absent or wait.unknown:
            if rank in missing_in:
                missing_in[rank].append(wait)
    for rank in lone_ranks:
        best = min(missing_in[rank], key=lambda wait: _directness(wait, roots))
        by_wait.setdefault(id(best), []).append(rank)
        chosen[id(best)] = best
    return [
        Root(
            cause=Cause.RANKS,
            ranks=tuple(sorted(ranks)),
            wait=chosen[token],
            victims=graph.victims([graph.node(rank) for rank in ranks]),
        )
        for token, ranks in by_wait.items()
    ]


def _directness(wait: Wait, roots: set[int]) -> tuple[int, int, int, int, int]:
    """An operation that lacks only root ranks shows them best; of several, the one that was issued first."""
    lacking = wait.absent or wait.unknown
    others = sum(rank not in roots for rank in lacking)
    return others, wait.issued_ns, len(wait.waiters) + len(lacking), wait.group, wait.op.sequence
