"""Where in the user's program ranks were, and which of them wait. Must not know: verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from pycomms.flight_recorder._model import UNKNOWN_SITE, Flag, Record, Site
from pycomms.flight_recorder.analysis._job import Job
from pycomms.flight_recorder.analysis._result import Edge, OpRef, RanksAt, Victims
from pycomms.flight_recorder.analysis._waits import Wait


def _grouped(found: Iterable[tuple[int, Site, OpRef]]) -> tuple[RanksAt, ...]:
    """Ranks at the same line are named together."""
    together: dict[tuple[str, int, OpRef], tuple[list[int], Site]] = {}
    for rank, site, op in found:
        together.setdefault((site.file, site.line, op), ([], site))[0].append(rank)
    ordered = sorted(together.items(), key=lambda item: (-len(item[1][0]), item[1][0]))
    return tuple(RanksAt(ranks=tuple(sorted(ranks)), site=site, op=op) for (_, _, op), (ranks, site) in ordered)


def sites_at(job: Job, group: int, sequence: int, ranks: Iterable[int]) -> tuple[RanksAt, ...]:
    """Where these ranks issued the operation with this number."""
    found = []
    for rank in ranks:
        lane = job.groups[group].lanes.get(rank)
        where = lane.at(sequence - lane.shift) if lane is not None else None
        if lane is not None and where is not None:
            kind = job.signatures[lane.signatures[where]].kind
            found.append((rank, lane.site(where), OpRef(kind=kind, sequence=sequence)))
    return _grouped(found)


def sites_of_wait(job: Job, wait: Wait) -> tuple[RanksAt, ...]:
    """Where the waiters issued what they are stuck in."""
    found = []
    for rank, row in sorted(wait.rows.items()):
        record = job.records[rank]
        found.append((rank, record.sites[int(record.entries["site"][row])], wait.op))
    return _grouped(found)


def last_ops(job: Job, group: int, ranks: Iterable[int]) -> tuple[RanksAt, ...]:
    """The last collective that these ranks issued in the group; where they issued none, their last of any kind."""
    found: list[tuple[int, Site, OpRef]] = []
    for rank in ranks:
        record = job.records.get(rank)
        lane = job.groups[group].lanes.get(rank)
        if record is None or not len(record.entries):
            continue
        if lane is not None and len(lane.rows):
            kind = job.signatures[lane.signatures[-1]].kind
            found.append((rank, lane.site(len(lane.rows) - 1), OpRef(kind=kind, sequence=lane.last + lane.shift)))
            continue
        if lane is not None:
            found.append((rank, UNKNOWN_SITE, OpRef(kind="operation", sequence=lane.last)))
            continue
        site, op = last_entry(record)
        found.append((rank, site, op))
    return _grouped(found)


def last_entry(record: Record) -> tuple[Site, OpRef]:
    """What a record that has entries ends with."""
    entry = record.entries[-1]
    signature = record.signatures[int(entry["signature"])]
    op = OpRef(kind=signature.kind, sequence=int(entry["sequence"]), p2p=bool(int(entry["flags"]) & Flag.P2P))
    return record.sites[int(entry["site"])], op


def victims(job: Job, waits: Iterable[Wait], roots: Sequence[int]) -> tuple[Victims, ...]:
    """Who waits in what, by group."""
    by_op: dict[tuple[int, OpRef], set[int]] = defaultdict(set)
    for wait in waits:
        ranks = {rank for rank in wait.waiters if rank not in roots}
        if ranks:
            by_op[wait.group, wait.op] |= ranks
    ordered = sorted(by_op.items(), key=lambda item: (item[0][0], item[0][1].sequence, sorted(item[1])))
    return tuple(
        Victims(group=job.groups[group].ref, ranks=tuple(sorted(ranks)), op=op) for (group, op), ranks in ordered
    )


def edges_of(job: Job, waits: Sequence[Wait]) -> tuple[Edge, ...]:
    """The wait-for graph as it is shown."""
    return tuple(
        Edge(waiter=rank, group=job.groups[wait.group].ref, op=wait.op, waits_for=wait.absent or wait.unknown)
        for wait in waits
        for rank in sorted(wait.waiters)
    )


def wake(job: Job, stopped: Sequence[int]) -> str:
    """What to do about processes that a signal stopped."""
    where = ", ".join(f"{job.records[rank].pid} on {job.records[rank].host}" for rank in stopped)
    return f"find out who stopped it (SIGSTOP, or Ctrl-Z in a shell); kill -CONT lets process {where} go on"


def op_text(op: OpRef) -> str:
    """``all_reduce 4``, ``send 2 from rank 0 to rank 1``."""
    if op.p2p and op.source >= 0:
        return f"{op.kind} {op.sequence} from rank {op.source} to rank {op.destination}"
    return f"{op.kind} {op.sequence}"
