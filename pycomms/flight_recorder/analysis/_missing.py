"""Ranks that others wait for and that wait for nobody: why they are not there."""

from __future__ import annotations

from pycomms.flight_recorder._model import State
from pycomms.flight_recorder.analysis._blame import Root
from pycomms.flight_recorder.analysis._job import Job
from pycomms.flight_recorder.analysis._places import last_ops, op_text, sites_at, sites_of_wait, victims, wake
from pycomms.flight_recorder.analysis._reason import Reason
from pycomms.flight_recorder.analysis._result import Finding, Verdict
from pycomms.flight_recorder.analysis._skips import left_out
from pycomms.flight_recorder.analysis._text import ranks_text
from pycomms.flight_recorder.analysis._waits import Wait


def describe_missing(job: Job, root: Root, dead: frozenset[int]) -> Finding:
    """dead: ranks whose process ended without closing its record."""
    wait = root.wait
    assert wait is not None
    group = job.groups[wait.group]
    reason = _reason(job, wait, root.ranks, dead)
    op, sites = wait.op, sites_of_wait(job, wait)
    waiting = ranks_text(sorted(wait.waiters))
    what, advice = f"{reason.what}; {waiting} {'waits' if len(wait.waiters) == 1 else 'wait'} there", reason.next_step
    skipped = left_out(job, wait, root.ranks) if reason.verdict is Verdict.MISSING_RANK and not op.p2p else None
    if skipped is not None:
        op, sites = skipped, sites_at(job, wait.group, skipped.sequence, wait.waiters)
        what = (
            f"{ranks_text(root.ranks)} left out {op_text(op)} of {group.ref.label} and went on; "
            f"{waiting} now wait in {op_text(wait.op)}"
        )
        advice = "look for a condition around the line where the others issued it that is false on these ranks only"
    return Finding(
        verdict=reason.verdict,
        root_ranks=reason.ranks,
        group=group.ref,
        op=op,
        culprit_sites=last_ops(job, wait.group, root.ranks),
        victim_sites=sites,
        victims=victims(job, root.victims, root.ranks),
        what=what,
        next_step=advice,
        would_decide=reason.would_decide,
        confidence=reason.confidence,
    )


def _reason(job: Job, wait: Wait, ranks: tuple[int, ...], dead: frozenset[int]) -> Reason:
    """The first of these that holds: gone, refused, a message, not known, left, or simply not there."""
    who, where = ranks_text(ranks), f"{op_text(wait.op)} of {job.groups[wait.group].ref.label}"
    gone = _gone(job, wait, ranks, dead, where)
    if gone is not None:
        return gone
    refusal = next((said for rank in ranks if (said := _refusal(job, wait, rank)) is not None), None)
    if refusal is not None:
        return Reason(
            verdict=Verdict.REJECTED_OP,
            ranks=ranks,
            what=f"{who}: the call for {where} was refused on the spot ({refusal})",
            next_step="correct the arguments there; the exception that it raised says which",
            confidence=0.95,
        )
    unrecorded = all(rank not in job.records for rank in ranks)
    if wait.op.p2p:
        missing = "send" if wait.op.kind == "recv" else "recv"
        return Reason(
            verdict=Verdict.P2P_UNMATCHED,
            ranks=ranks,
            what=f"{who} never issued the {missing} for {where}",
            next_step=f"look at what {who} did instead, and whether both sides agree about the number of messages",
            confidence=0.6 if unrecorded else 0.9,
        )
    if not wait.certain:
        return Reason(
            verdict=Verdict.INSUFFICIENT_DATA,
            ranks=(),
            what=f"of {who} there is no record, and how {where} ended is not told"
            if unrecorded
            else f"{who} had not issued {where} when its record was written",
            next_step="take a second dump of all ranks a few seconds later, and analyze that",
            confidence=0.4,
            would_decide="a second dump: these records tell neither an operation that hangs from one that ended, "
            "nor when each was written",
        )
    if unrecorded and 2 * len(ranks) > len(job.groups[wait.group].members):
        return Reason(
            verdict=Verdict.INSUFFICIENT_DATA,
            ranks=(),
            what=f"of {who}, most of the group, there is no record, and all others have come to {where}",
            next_step="collect the records of all ranks and hosts: give the folder of the job, not one file of it",
            confidence=0.4,
            would_decide=f"the records of {who}",
        )
    if unrecorded:
        return Reason(
            verdict=Verdict.MISSING_RANK,
            ranks=ranks,
            what=f"all others have come to {where}, and of {who} there is no record",
            next_step="look at that rank's log and host first: it died, was never started, or its record was not "
            "collected",
            confidence=0.7,
            would_decide=f"the record of {who}",
        )
    return _absent(job, ranks, who, where)


def _gone(job: Job, wait: Wait, ranks: tuple[int, ...], dead: frozenset[int], where: str) -> Reason | None:
    """A process that ended, or began again."""
    lanes = job.groups[wait.group].lanes
    restarted = tuple(rank for rank in ranks if rank in lanes and lanes[rank].restarted)
    if restarted:
        return Reason(
            verdict=Verdict.RANK_RESTARTED,
            ranks=ranks,
            what=f"{ranks_text(restarted)} started anew and counts its operations from the beginning: "
            f"it never comes to {where}",
            next_step="restart the whole job, or regroup: a process cannot go on where its predecessor stopped; "
            "then look for why that one ended",
            confidence=0.9,
        )
    ended = sorted(dead.intersection(ranks))
    if ended:
        return Reason(
            verdict=Verdict.RANK_DIED,
            ranks=ranks,
            what=f"the process of {ranks_text(ended)} ended before {where}",
            next_step="look at that process's log and exit code, and at the kernel's log for the out-of-memory killer",
            confidence=0.9,
        )
    return None


def _absent(job: Job, ranks: tuple[int, ...], who: str, where: str) -> Reason:
    closed = [rank for rank in ranks if rank in job.records and job.records[rank].closed]
    if closed:
        said = next((text for rank in closed if (text := job.records[rank].stop_reason)), "")
        return Reason(
            verdict=Verdict.MISSING_RANK,
            ranks=ranks,
            what=f"{ranks_text(closed)} closed its groups and left before {where}"
            + (f" ({said[:200]})" if said else ""),
            next_step="look for an exception, or an earlier end of its loop, on that rank",
            confidence=0.95,
        )
    stopped = [rank for rank in ranks if rank in job.records and job.records[rank].stopped]
    if stopped:
        return Reason(
            verdict=Verdict.MISSING_RANK,
            ranks=ranks,
            what=f"{who} never issued {where}: the process of {ranks_text(stopped)} is stopped",
            next_step=wake(job, stopped),
            confidence=0.95,
        )
    blank = any(job.is_blank(rank) for rank in ranks)
    return Reason(
        verdict=Verdict.MISSING_RANK,
        ranks=ranks,
        what=f"{who} never issued {where}",
        next_step=f"look at what {who} does after its last operation: py-spy dump, or its log",
        confidence=0.6 if blank else 0.95,
        would_decide=f"the whole record of {who}" if blank else "",
    )


def _refusal(job: Job, wait: Wait, rank: int) -> str | None:
    """Why the rank's last call in this group was refused, if it was."""
    record = job.records.get(rank)
    if record is None or not len(record.entries):
        return None
    refused = [
        row
        for row in (record.entries["state"] == State.REJECTED).nonzero()[0]
        if job.group_of.get((rank, int(record.entries["group"][row]))) == wait.group
    ]
    lane = job.groups[wait.group].lanes.get(rank)
    if not refused or (lane is not None and len(lane.rows) and lane.rows[-1] > refused[-1]):
        return None
    return record.errors[int(record.entries["error"][refused[-1]])] or "no reason recorded"
