"""From the records of a job to what is wrong with it: pure functions, no files, no clock, no torch."""

from pycomms.flight_recorder.analysis._analyze import analyze
from pycomms.flight_recorder.analysis._result import (
    Analysis,
    Edge,
    Finding,
    GroupRef,
    OpRef,
    RanksAt,
    Replaced,
    Side,
    Suspicion,
    Verdict,
    Victims,
)

__all__ = [
    "Analysis",
    "Edge",
    "Finding",
    "GroupRef",
    "OpRef",
    "RanksAt",
    "Replaced",
    "Side",
    "Suspicion",
    "Verdict",
    "Victims",
    "analyze",
]
