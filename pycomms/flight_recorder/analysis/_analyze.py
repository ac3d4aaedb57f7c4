"""The analysis from end to end: records in, findings out."""

from __future__ import annotations

from collections.abc import Sequence

from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder.analysis import _job
from pycomms.flight_recorder.analysis._blame import find_roots
from pycomms.flight_recorder.analysis._deaths import dead_ranks
from pycomms.flight_recorder.analysis._findings import describe, in_unknown_groups, nothing_recorded
from pycomms.flight_recorder.analysis._looks import is_proven
from pycomms.flight_recorder.analysis._mismatch import Keys, first_mismatch
from pycomms.flight_recorder.analysis._numbering import mark
from pycomms.flight_recorder.analysis._p2p import message_waits
from pycomms.flight_recorder.analysis._places import edges_of
from pycomms.flight_recorder.analysis._result import Analysis
from pycomms.flight_recorder.analysis._slow import slow_ranks
from pycomms.flight_recorder.analysis._waits import collective_waits


def analyze(records: Sequence[Record], warnings: Sequence[str] = (), *, degraded: bool = False) -> Analysis:
    """What is wrong with the job that these are the records of, in any order.

    warnings, degraded: of reading the records.
    """
    job = _job.build(records)
    keys = Keys(job.signatures)
    job.warnings.extend(mark(job, keys))
    found = (first_mismatch(index, group, keys) for index, group in enumerate(job.groups))
    mismatches = [one for one in found if one is not None]
    waits = [wait for wait in collective_waits(job, keys) + message_waits(job) if is_proven(job, wait)]
    dead = dead_ranks(job)
    restarted = {rank for group in job.groups for rank, lane in group.lanes.items() if lane.restarted}
    roots = find_roots(job, waits, mismatches, excused=dead | restarted)
    findings = describe(job, roots, dead)
    if not findings and not job.entries:
        findings = [nothing_recorded(job)]
    if not findings:
        findings = in_unknown_groups(job)
    if not findings:
        findings = slow_ranks(job, keys)
    return Analysis(
        findings=tuple(findings),
        warnings=tuple(dict.fromkeys([*warnings, *job.warnings])),
        degraded=degraded or bool(job.absent) or any(map(job.is_blank, job.records)),
        ranks=tuple(sorted(job.records)),
        absent_ranks=job.absent,
        groups=tuple(group.ref for group in job.groups),
        entries=job.entries,
        edges=edges_of(job, waits),
    )
