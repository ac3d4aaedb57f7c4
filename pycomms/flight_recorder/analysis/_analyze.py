"""The analysis from end to end: records in, findings out."""

from __future__ import annotations

from collections.abc import Sequence

from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder.analysis import _job
from pycomms.flight_recorder.analysis._blame import find_roots
from pycomms.flight_recorder.analysis._deaths import dead_ranks, replaced
from pycomms.flight_recorder.analysis._findings import describe, in_unknown_groups, nothing_recorded
from pycomms.flight_recorder.analysis._looks import Age, age_of
from pycomms.flight_recorder.analysis._mismatch import Keys, first_mismatch
from pycomms.flight_recorder.analysis._numbering import mark
from pycomms.flight_recorder.analysis._p2p import message_waits
from pycomms.flight_recorder.analysis._places import edges_of
from pycomms.flight_recorder.analysis._result import Analysis, Finding, Suspicion
from pycomms.flight_recorder.analysis._slow import slow_ranks
from pycomms.flight_recorder.analysis._waits import Wait, collective_waits


def analyze(
    records: Sequence[Record],
    warnings: Sequence[str] = (),
    *,
    degraded: bool = False,
    patience_ns: int | None = None,
) -> Analysis:
    """What is wrong with the job that these are the records of, in any order.

    warnings, degraded: of reading the records. patience_ns: for how long ranks that run may wait for one another; by
    default a part of their timeout.
    """
    job = _job.build(records)
    keys = Keys(job.signatures)
    job.warnings.extend(mark(job, keys))
    found = (first_mismatch(index, group, keys) for index, group in enumerate(job.groups))
    mismatches = [one for one in found if one is not None]
    waits, ages = _noticed(job, collective_waits(job, keys) + message_waits(job), patience_ns)
    dead = dead_ranks(job)
    restarted = {rank for group in job.groups for rank, lane in group.lanes.items() if lane.restarted}
    roots = find_roots(job, waits, mismatches, excused=dead | restarted)
    findings = describe(job, roots, dead)
    suspicions: tuple[Suspicion, ...] = ()
    if waits and not mismatches and not dead and not any(age.is_fault for age in ages):
        suspicions, findings = _only_suspected(findings, ages), []
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
        suspicions=suspicions,
        replaced=replaced(job),
    )


def _noticed(job: _job.Job, waits: Sequence[Wait], patience_ns: int | None) -> tuple[list[Wait], list[Age]]:
    found = [(wait, age) for wait in waits if (age := age_of(job, wait, patience_ns)).is_noticed]
    return [wait for wait, _ in found], [age for _, age in found]


def _only_suspected(findings: Sequence[Finding], ages: Sequence[Age]) -> tuple[Suspicion, ...]:
    """None of these waits has lasted long enough. Where one has, the others are its victims, however young."""
    lasted = max(age.lasted_ns or 0 for age in ages)
    fault = min(age.fault_ns for age in ages)
    return tuple(Suspicion(finding=finding, lasted_ns=lasted, fault_ns=fault) for finding in findings)
