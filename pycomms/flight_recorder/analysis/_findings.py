"""Root causes in the words of the one who is called at night: what happened, where, what to do next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pycomms.flight_recorder._model import State
from pycomms.flight_recorder.analysis._blame import Cause, Root
from pycomms.flight_recorder.analysis._cycles import describe_cycle
from pycomms.flight_recorder.analysis._deaths import OURS
from pycomms.flight_recorder.analysis._job import Job
from pycomms.flight_recorder.analysis._joined import describe_joined
from pycomms.flight_recorder.analysis._mismatch import Mismatch
from pycomms.flight_recorder.analysis._missing import describe_missing
from pycomms.flight_recorder.analysis._places import sites_at, victims
from pycomms.flight_recorder.analysis._result import Finding, OpRef, Verdict
from pycomms.flight_recorder.analysis._rounds import rounds_before
from pycomms.flight_recorder.analysis._text import ranks_text


def describe(job: Job, roots: Sequence[Root], dead: frozenset[int]) -> list[Finding]:
    """The findings, most important first. dead: ranks whose process ended without closing its record."""
    found = [_describe(job, root, dead) for root in roots]
    named = {rank for finding in found for rank in finding.root_ranks}
    found.extend(_died(rank) for rank in sorted(dead - named))
    return sorted(found, key=_importance)


def nothing_recorded(job: Job) -> Finding:
    """Records without a single operation."""
    if any(record.alive for record in job.records.values()):
        return Finding(
            verdict=Verdict.INSUFFICIENT_DATA,
            what=f"{ranks_text(sorted(job.records))} issued no operation so far",
            next_step="wait until the job has started; if it hangs here, py-spy dump tells where",
            would_decide="a look at the job once it issues operations",
        )
    return Finding(
        verdict=Verdict.INSUFFICIENT_DATA,
        what=f"the records of {ranks_text(sorted(job.records))} hold no operation",
        next_step="check that recording is on: TORCH_FR_BUFFER_SIZE, PYCOMMS_FR_ENTRIES above 0",
        would_decide="records with operations in them",
    )


def in_unknown_groups(job: Job) -> list[Finding]:
    """Operations that failed or did not end in groups that the record had no room for: nobody can tell whose."""
    bad = (State.ISSUED, State.RUNNING, State.FAILED, State.TIMED_OUT)
    ranks = []
    for rank, record in sorted(job.records.items()):
        unknown = [index for index, group in enumerate(record.groups) if not group.ranks]
        entries = record.entries[np.isin(record.entries["group"], unknown)]
        if record.writer in OURS and np.isin(entries["state"], bad).any():
            ranks.append(rank)
    if not ranks:
        return []
    return [
        Finding(
            verdict=Verdict.INSUFFICIENT_DATA,
            what=f"in groups that the record had no room for, operations of {ranks_text(ranks)} failed or did not end",
            next_step="look at the errors in the logs of these ranks",
            would_decide="a record of a job with fewer groups",
        )
    ]


def _died(rank: int) -> Finding:
    return Finding(
        verdict=Verdict.RANK_DIED,
        root_ranks=(rank,),
        what=f"the process of rank {rank} ended without closing its record; nobody waits for it yet",
        next_step="look at that process's log and exit code, and at the kernel's log for the out-of-memory killer",
        confidence=0.7,
    )


def _describe(job: Job, root: Root, dead: frozenset[int]) -> Finding:
    if root.cause is Cause.MISMATCH and root.mismatch is not None:
        return _mismatch(job, root, root.mismatch)
    if root.cause is Cause.CYCLE:
        return describe_cycle(job, root)
    if root.cause is Cause.JOINED:
        return describe_joined(job, root)
    return describe_missing(job, root, dead)


def _importance(finding: Finding) -> tuple[object, ...]:
    """Faults that stop the job before those that only spoil its results; what stops most ranks first."""
    group = finding.group.name if finding.group else ""
    undecided = finding.verdict is Verdict.INSUFFICIENT_DATA
    return finding.silent, undecided, -len(finding.victim_ranks), -finding.confidence, group, finding.root_ranks


_MISMATCH_ADVICE = {
    Verdict.OP_MISMATCH: "compare the branches that lead to these lines: a condition differs between ranks",
    Verdict.SIZE_MISMATCH: "check what the size depends on: an uneven last batch, or a configuration that differs",
    Verdict.DTYPE_MISMATCH: "check precision settings and casts: one rank runs with another dtype",
    Verdict.REDOP_MISMATCH: "pass the same reduction on every rank",
    Verdict.ROOT_MISMATCH: "pass the same src or dst on every rank; it is a global rank, not a rank of the group",
    Verdict.SPLIT_MISMATCH: "exchange the split sizes before the operation: what one sends the other must expect",
    Verdict.ORDER_SWAP: "issue the two operations in the same order on every rank",
}


def _mismatch(job: Job, root: Root, mismatch: Mismatch) -> Finding:
    group = job.groups[mismatch.group]
    found = mismatch.disagreement
    usual, minority = found.sides[0].ranks, found.minority
    kind = _kind_at(job, mismatch, usual[0])
    op = OpRef(kind=kind, sequence=mismatch.sequence)
    sides = "; ".join(f"{ranks_text(side.ranks)}: {side.what}" for side in found.sides)
    verdict = Verdict.MISSING_RANK if mismatch.skipped else found.verdict
    if mismatch.skipped:
        what = (
            f"{ranks_text(minority)} left out {kind} {mismatch.sequence} of {group.ref.label} and went on: "
            "from there on their operations meet those that the others issue later"
        )
        advice = "look for a condition around this line that is false on these ranks only"
    else:
        what = f"the ranks of {group.ref.label} disagree about operation {mismatch.sequence}: {sides}"
        advice = _MISMATCH_ADVICE[verdict]
    if verdict is Verdict.OP_MISMATCH and minority:
        rounds = rounds_before(job, mismatch.group, mismatch.sequence, usual[0], minority)
        if rounds is not None:
            what += f"; {rounds.seen(usual)}"
            advice += f"; or {rounds.advice(minority)}"
    if not minority and not mismatch.skipped:
        what += "; as many on one side as on the other, so neither is taken for wrong"
    everyone = [rank for rank in sorted(group.lanes) if rank not in minority]
    return Finding(
        verdict=verdict,
        root_ranks=minority,
        group=group.ref,
        op=op,
        culprit_sites=sites_at(job, mismatch.group, mismatch.sequence, minority),
        victim_sites=sites_at(job, mismatch.group, mismatch.sequence, everyone),
        victims=victims(job, root.victims, minority),
        sides=found.sides,
        what=what,
        next_step=advice,
        would_decide="" if minority else "which of the two the program was meant to do",
        confidence=0.95 if minority else 0.5,
        silent=not root.victims,
    )


def _kind_at(job: Job, mismatch: Mismatch, rank: int) -> str:
    lane = job.groups[mismatch.group].lanes[rank]
    where = lane.at(mismatch.sequence - lane.shift)
    return "unknown" if where is None else job.signatures[lane.signatures[where]].kind
