"""Ranks that wait for each other in a circle."""

from __future__ import annotations

from collections import Counter

from pycomms.flight_recorder._model import Flag
from pycomms.flight_recorder.analysis._blame import Root
from pycomms.flight_recorder.analysis._job import Job
from pycomms.flight_recorder.analysis._places import op_text, sites_of_wait, victims
from pycomms.flight_recorder.analysis._result import Finding, Side, Verdict
from pycomms.flight_recorder.analysis._text import ranks_text
from pycomms.flight_recorder.analysis._waits import Wait


def describe_cycle(job: Job, root: Root) -> Finding:
    waits = sorted(root.cycle, key=lambda wait: (len(job.groups[wait.group].members), wait.group, wait.op.sequence))
    skipped = _left_out(job, waits)
    if skipped is not None:
        return _skip(job, root, *skipped)
    first = waits[0]
    p2p = all(wait.op.p2p for wait in waits)
    sides = tuple(
        Side(
            ranks=tuple(sorted(rank for rank in wait.waiters if rank in root.ranks)),
            what=f"in {op_text(wait.op)} of {job.groups[wait.group].ref.label}, waiting for "
            f"{ranks_text(sorted(set(wait.absent) & set(root.ranks)))}",
        )
        for wait in waits
    )
    ordered = sorted(sides, key=lambda side: (-len(side.ranks), side.ranks))
    roots = root.ranks
    if not p2p and len(ordered) == 2 and len(ordered[0].ranks) > len(ordered[1].ranks):
        roots = ordered[1].ranks
    chain = "; ".join(f"{ranks_text(side.ranks)} {side.what}" for side in ordered)
    advice = (
        "make one side receive first, or use batch_isend_irecv"
        if p2p
        else "issue the operations of these groups in the same order on every rank"
    )
    return Finding(
        verdict=Verdict.P2P_DEADLOCK if p2p else Verdict.ORDER_DEADLOCK,
        root_ranks=roots,
        group=job.groups[first.group].ref,
        op=first.op,
        culprit_sites=tuple(site for wait in waits for site in sites_of_wait(job, wait)),
        victims=victims(job, root.victims, roots),
        sides=tuple(ordered),
        what=f"the ranks wait for each other in a circle: {chain}",
        next_step=advice,
        confidence=0.9,
    )


def _left_out(job: Job, waits: list[Wait]) -> tuple[Wait, tuple[int, ...], Wait] | None:
    """A rank that left out an operation and went on to one of a larger group closes a circle too.

    It shows in that it issued less before that operation than its peers who came to it did. Returns the operation
    left out, by whom, and the one they went on to.
    """
    for larger in waits:
        members = set(job.groups[larger.group].members)
        for smaller in waits:
            suspects = set(smaller.absent) & set(larger.waiters)
            if smaller is larger or not suspects or not set(job.groups[smaller.group].members) < members:
                continue
            work = {rank: _work_before(job, rank, larger) for rank in larger.waiters}
            others = Counter(count for rank, count in work.items() if rank not in suspects)
            if not others:
                continue
            usual, how_many = min(others.items(), key=lambda item: (-item[1], item[0]))
            guilty = tuple(sorted(rank for rank in suspects if work[rank] < usual))
            if how_many >= 2 and guilty:
                return smaller, guilty, larger
    return None


def _work_before(job: Job, rank: int, wait: Wait) -> int:
    """How many collectives of other groups the rank issued since its last of this one."""
    row = wait.rows.get(rank)
    if row is None:
        return 0
    lane = job.groups[wait.group].lanes[rank]
    where = int(lane.rows.searchsorted(row))
    start = int(lane.rows[where - 1]) + 1 if where else 0
    flags = job.records[rank].entries["flags"][start:row]
    return int(((flags & Flag.P2P) == 0).sum())


def _skip(job: Job, root: Root, smaller: Wait, guilty: tuple[int, ...], larger: Wait) -> Finding:
    group = job.groups[smaller.group]
    sites = sites_of_wait(job, larger)
    return Finding(
        verdict=Verdict.MISSING_RANK,
        root_ranks=guilty,
        group=group.ref,
        op=smaller.op,
        culprit_sites=tuple(one for one in sites if set(one.ranks) & set(guilty)),
        victim_sites=sites_of_wait(job, smaller),
        victims=victims(job, root.victims, guilty),
        what=f"{ranks_text(guilty)} left out {op_text(smaller.op)} of {group.ref.label} and went on to "
        f"{op_text(larger.op)} of {job.groups[larger.group].ref.label}; "
        f"{ranks_text(sorted(smaller.waiters))} wait in the former",
        next_step="look for a condition around the line where the others issued it that is false on these ranks only",
        confidence=0.85,
    )
