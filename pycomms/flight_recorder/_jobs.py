"""Which job a folder of several jobs is asked about. Pure; must not know: verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pycomms.flight_recorder._model import UNKNOWN_RANK, Record


def one_job(records: Sequence[Record]) -> tuple[list[Record], tuple[str, ...]]:
    """The records of the last job that lives, or of the last at all; and the names of the others.

    Hosts may name one job differently: where no rank is in two jobs, they are taken for one.
    """
    jobs = {record.job for record in records if record.job}
    seen = Counter(rank for rank, _ in {(one.rank, one.job) for one in records if one.rank != UNKNOWN_RANK})
    if len(jobs) < 2 or max(seen.values(), default=0) < 2:
        return list(records), ()
    last = max((one for one in records if one.job), key=lambda one: (bool(one.alive), one.taken_ns, one.job))
    return [one for one in records if one.job in ("", last.job)], tuple(sorted(jobs - {last.job}))
