"""Ranks whose process is gone, as far as the records of others make that a cause."""

from __future__ import annotations

import numpy as np

from pycomms.flight_recorder._model import UNKNOWN_SITE, State
from pycomms.flight_recorder.analysis._job import Job
from pycomms.flight_recorder.analysis._places import last_entry
from pycomms.flight_recorder.analysis._result import Replaced

OURS = ("ring", "pycomms")
"""Writers of records of our own."""


def dead_ranks(job: Job) -> frozenset[int]:
    """Those whose process ended without closing its record, while others live.

    When all are gone, the launcher has ended most of them after the fault. Such an end leaves a word where the record
    is one of ours: of the signal, or of the failure before it. A process that was killed without a warning leaves none.
    """
    gone = {rank: record for rank, record in job.records.items() if record.alive is False and not record.closed}
    if all(record.alive is False for record in job.records.values()):
        gone = {rank: record for rank, record in gone.items() if record.writer in OURS and not record.stop_reason}
        others = [record for rank, record in job.records.items() if rank not in gone]
        # Who waited until a deadline passed waited for one that lived: our backend tells a death at once.
        if any(np.any(record.entries["state"] == State.TIMED_OUT) for record in others) or not others:
            return frozenset()
    return frozenset(gone)


def replaced(job: Job) -> tuple[Replaced, ...]:
    """Who died before another process took the rank's place, under `pycomms run` or in an earlier attempt of torchrun.

    Only who left no word: of an attempt that is given up, the launcher ends the others with a signal that does.
    """
    found = []
    for rank, older in sorted(job.superseded.items()):
        followed = job.records[rank].pid if rank in job.records else 0
        for record in older:
            killed = record.writer == "ring" and record.alive is False and not (record.closed or record.stop_reason)
            if killed and record.pid != followed:
                place = last_entry(record) if len(record.entries) else (UNKNOWN_SITE, None)
                found.append(Replaced(rank=rank, pid=record.pid, host=record.host, site=place[0], op=place[1]))
    return tuple(found)
