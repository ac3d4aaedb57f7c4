"""Jobs as large as they come: made straight into arrays, so that the test measures the analyzer."""

from __future__ import annotations

import time

import numpy as np
import pytest

from pycomms.flight_recorder._model import ENTRY, UNKNOWN_SITE, Group, Record, Signature, Site, State
from pycomms.flight_recorder.analysis import Verdict, analyze
from tests.flight_recorder.simulator import START_NS

_KINDS = ("all_reduce", "all_gather_single", "reduce_scatter_single", "broadcast")


def large_job(ranks: int, entries: int, *, missing: int) -> list[Record]:
    """All ranks issue the same; the last operation is in flight, and the missing rank has not issued it."""
    groups = (Group(name="0", description="default_pg", ranks=tuple(range(ranks))),)
    signatures = tuple(
        Signature(kind=kind, input_sizes=((64,),), output_sizes=((64,),), input_dtypes=("Float",)) for kind in _KINDS
    )
    sites = (UNKNOWN_SITE, *(Site(file="train.py", line=line) for line in range(10, 14)))
    number = np.arange(entries)
    rows = np.zeros(entries, ENTRY)
    rows["id"] = rows["sequence"] = number + 1
    rows["signature"] = number % len(_KINDS)
    rows["site"] = 1 + number % len(_KINDS)
    rows["issued_ns"] = START_NS + number * 1_000_000
    rows["ended_ns"] = rows["issued_ns"] + 100_000
    rows["state"] = State.COMPLETED
    rows["state"][-1], rows["ended_ns"][-1] = State.RUNNING, 0
    return [
        Record(
            source=f"rank{rank}",
            writer="ring",
            rank=rank,
            world_size=ranks,
            groups=groups,
            signatures=signatures,
            sites=sites,
            entries=rows[:-1].copy() if rank == missing else rows.copy(),
        )
        for rank in range(ranks)
    ]


@pytest.mark.parametrize("ranks, entries, limit_s", [(512, 2000, 5.0), (10_000, 200, 25.0)])
def test_one_rank_missing_from_a_large_job(ranks: int, entries: int, limit_s: float) -> None:
    """The limit is several times what a quiet machine needs; it catches what is not linear."""
    records = large_job(ranks, entries, missing=77)
    began = time.process_time()
    analysis = analyze(records)
    took = time.process_time() - began
    assert (analysis.verdict, analysis.root_ranks) == (Verdict.MISSING_RANK, (77,))
    assert analysis.findings[0].op is not None
    assert analysis.findings[0].op.sequence == entries
    assert len(analysis.findings[0].victim_ranks) == ranks - 1
    assert took < limit_s
