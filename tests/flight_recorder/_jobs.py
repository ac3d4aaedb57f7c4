"""Records of made-up jobs for the tests of the reports: written down rank by rank, as a recorder would have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from pycomms.flight_recorder._model import (
    ENTRY,
    UNKNOWN_RANK,
    UNKNOWN_SITE,
    Flag,
    Group,
    Record,
    Signature,
    Site,
    State,
)

_T = TypeVar("_T")

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000
KiB = 1024


def signature(
    kind: str, numbers: int = 256, *, ranks: int = 1, dtype: str = "float32", peer: int = UNKNOWN_RANK
) -> Signature:
    """Of `numbers` elements a rank."""
    given: tuple[tuple[int, ...], ...] = () if kind in ("recv", "barrier") else ((numbers,),)
    taken: tuple[tuple[int, ...], ...] = () if kind in ("send", "barrier") else ((numbers,),)
    if kind == "all_gather_single":
        taken = ((numbers * ranks,),)
    if kind == "reduce_scatter_single":
        given = ((numbers * ranks,),)
    return Signature(
        kind=kind,
        reduction="sum" if "reduce" in kind else "",
        root=0 if kind in ("broadcast", "gather", "scatter", "reduce") else UNKNOWN_RANK,
        peer=peer,
        input_sizes=given,
        output_sizes=taken,
        input_dtypes=(dtype,) * len(given),
        output_dtypes=(dtype,) * len(taken),
    )


@dataclass(kw_only=True)
class Rank:
    """Writes one process's record down. Times are in ns since the start of the job, of a true clock; `clock_ns` is how
    far this process's clock is off.
    """

    rank: int
    world_size: int
    host: str = "host0"
    clock_ns: int = 0
    writer: str = "ring"
    groups: list[Group] = field(default_factory=list)
    signatures: list[Signature] = field(default_factory=list)
    sites: list[Site] = field(default_factory=lambda: [UNKNOWN_SITE])
    errors: list[str] = field(default_factory=lambda: [""])
    rows: list[tuple[object, ...]] = field(default_factory=list)

    def op(
        self,
        group: Group,
        what: Signature,
        sequence: int,
        *,
        at: int,
        took: int = MS,
        state: State = State.COMPLETED,
        site: Site = UNKNOWN_SITE,
        error: str = "",
        flags: int = 0,
        timeout_ms: int = 600_000,
    ) -> None:
        now = START_NS + self.clock_ns + at
        p2p = Flag.P2P if what.kind in ("send", "recv") else 0
        started = 0 if state in (State.ISSUED, State.REJECTED) else now + took // 10
        ended = 0 if state in (State.ISSUED, State.RUNNING) else now + took
        indices = (
            _index(self.groups, group),
            sequence,
            _index(self.signatures, what),
            _index(self.sites, site),
            _index(self.errors, error),
        )
        self.rows.append(
            (now, started, ended, len(self.rows), *indices, timeout_ms, group.generation, int(flags | p2p), int(state))
        )

    def record(self, *, taken: int, alive: bool | None = None) -> Record:
        return Record(
            source=f"rank{self.rank}.ring",
            writer=self.writer,
            version="1",
            rank=self.rank,
            world_size=self.world_size,
            host=self.host,
            pid=4000 + self.rank,
            job="job7",
            taken_ns=START_NS + self.clock_ns + taken,
            alive=alive,
            groups=tuple(self.groups),
            signatures=tuple(self.signatures),
            sites=tuple(self.sites),
            errors=tuple(self.errors),
            entries=np.array(self.rows, ENTRY),
        )


def _index(known: list[_T], item: _T) -> int:
    if item not in known:
        known.append(item)
    return known.index(item)


def world_group(size: int) -> Group:
    return Group(name="0", description="default_pg", ranks=tuple(range(size)))


def healthy(
    size: int = 4, ops: int = 12, *, hosts: Sequence[str] = ("host0",), clocks_ns: Sequence[int] = (0,)
) -> list[Record]:
    """Everybody does the same and is done; rank 1 comes 2 ms late to everything. Host `i` has clock `i`."""
    group = world_group(size)
    kinds = ("all_reduce", "all_gather_single", "reduce_scatter_single", "barrier")
    records = []
    for rank in range(size):
        home = rank * len(hosts) // size
        writer = Rank(rank=rank, world_size=size, host=hosts[home], clock_ns=clocks_ns[home])
        for number in range(ops):
            kind = kinds[number % len(kinds)]
            begin = number * 10 * MS
            late = 2 * MS if rank == 1 else rank * MS // 100
            site = Site(file="train.py", line=40 + number % len(kinds), function="step")
            writer.op(group, signature(kind, ranks=size), number + 1, at=begin + late, took=5 * MS - late, site=site)
        records.append(writer.record(taken=ops * 10 * MS, alive=False))
    return records


def missing_rank(size: int = 8, *, culprit: int = 5, steps: int = 6) -> list[Record]:
    """Tensor-parallel pairs and data-parallel groups. `culprit` skips an all_reduce of its pair and goes to lunch; its
    partner waits in that pair, and everybody else for one of the two in their data-parallel group.
    """
    culprit_step = steps - 1
    records = []
    partner = culprit ^ 1
    for rank in range(size):
        pair = rank // 2
        tensor = Group(name=str(1 + pair), description=f"tp{pair}", ranks=(2 * pair, 2 * pair + 1))
        data = Group(name=str(50 + rank % 2), description=f"dp{rank % 2}", ranks=tuple(range(rank % 2, size, 2)))
        writer = Rank(rank=rank, world_size=size, host=f"node{rank * 2 // size}")
        for step in range(steps):
            begin = step * 40 * MS + (rank * 7 % 5) * MS // 4
            last = step == culprit_step
            if last and rank == culprit:
                break
            stuck = State.RUNNING if last and rank == partner else State.COMPLETED
            writer.op(
                tensor,
                signature("all_reduce", 4 * KiB * KiB),
                step + 1,
                at=begin,
                took=9 * MS,
                state=stuck,
                site=Site(file="layers/mlp.py", line=88, function="forward"),
            )
            if last and rank == partner:
                break
            writer.op(
                data,
                signature("reduce_scatter_single", 256 * KiB, ranks=size // 2),
                step + 1,
                at=begin + 14 * MS,
                took=16 * MS,
                state=State.RUNNING if last else State.COMPLETED,
                site=Site(file="train.py", line=131, function="step"),
            )
        records.append(writer.record(taken=630_000 * MS, alive=True))
    return records
