"""Operations that every rank has come to and that do not end: the program is right, something below it is not."""

from __future__ import annotations

from pycomms.flight_recorder._model import State
from pycomms.flight_recorder.analysis._blame import Root
from pycomms.flight_recorder.analysis._job import Job
from pycomms.flight_recorder.analysis._places import op_text, sites_of_wait, victims, wake
from pycomms.flight_recorder.analysis._reason import Reason
from pycomms.flight_recorder.analysis._result import Finding, Verdict
from pycomms.flight_recorder.analysis._text import ranks_text
from pycomms.flight_recorder.analysis._waits import Wait


def describe_joined(job: Job, root: Root) -> Finding:
    wait = root.wait
    assert wait is not None
    group = job.groups[wait.group]
    reason = _reason(job, wait, f"{op_text(wait.op)} of {group.ref.label}")
    sites = sites_of_wait(job, wait)
    return Finding(
        verdict=reason.verdict,
        root_ranks=reason.ranks,
        group=group.ref,
        op=wait.op,
        culprit_sites=tuple(one for one in sites if set(one.ranks) & set(reason.ranks)),
        victim_sites=tuple(one for one in sites if not set(one.ranks) & set(reason.ranks)),
        victims=victims(job, root.victims, reason.ranks),
        sides=wait.sides,
        what=reason.what,
        next_step=reason.next_step,
        confidence=reason.confidence,
        silent=wait.fault is not None and not wait.waiters,
    )


_ADVICE = {
    Verdict.P2P_SIZE_MISMATCH: "make both sides agree about the size: send the shape first where it varies",
    Verdict.P2P_TAG_MISMATCH: "use the same tag on both sides",
}


def _reason(job: Job, wait: Wait, where: str) -> Reason:
    waiting = tuple(sorted(wait.waiters))
    if wait.fault is not None:
        return Reason(
            verdict=wait.fault,
            ranks=tuple(sorted(wait.rows)),
            what=f"{where}: " + "; ".join(f"{ranks_text(side.ranks)} {side.what}" for side in wait.sides),
            next_step=_ADVICE[wait.fault],
            confidence=0.95,
        )
    stopped = tuple(rank for rank in waiting if job.records[rank].stopped)
    if stopped:
        return Reason(
            verdict=Verdict.COMPLETION_STUCK if wait.done else Verdict.ALL_JOINED_NOT_DONE,
            ranks=stopped,
            what=f"all ranks issued {where}, and the process of {ranks_text(stopped)} is stopped",
            next_step=wake(job, stopped),
            confidence=0.95,
        )
    if wait.done:
        return Reason(
            verdict=Verdict.COMPLETION_STUCK,
            ranks=waiting,
            what=f"{where} ended on {ranks_text(wait.done)} and not on {ranks_text(waiting)}",
            next_step="look at the device and the watchdog there: the data was exchanged, its end was not noticed",
            confidence=0.8,
        )
    queued = tuple(rank for rank in waiting if wait.waiters[rank] <= State.ISSUED)
    started = tuple(rank for rank in waiting if wait.waiters[rank] is State.RUNNING)
    if queued and started and len(queued) <= len(started):
        return Reason(
            verdict=Verdict.DEVICE_QUEUE_BLOCKED,
            ranks=queued,
            what=f"all ranks issued {where}; it started on {ranks_text(started)} "
            f"and is still queued on {ranks_text(queued)}",
            next_step=f"look at what the device of {ranks_text(queued)} was given before: a kernel that does not end, "
            "or a wait for an event of another stream",
            confidence=0.85,
        )
    said = _errors(job, wait)
    return Reason(
        verdict=Verdict.ALL_JOINED_NOT_DONE,
        ranks=(),
        what=f"all ranks issued {where} with matching arguments, and it ended on none"
        + (f" ({said[0][:200]})" if said else ""),
        next_step="the program is right: look at the network (links, switches, firewall, NCCL_DEBUG=INFO) "
        "and at the devices (Xid errors)",
        confidence=0.85,
    )


def _errors(job: Job, wait: Wait) -> list[str]:
    found = set()
    for rank, row in wait.rows.items():
        record = job.records[rank]
        found.add(record.errors[int(record.entries["error"][row])])
    return sorted(found - {""})
