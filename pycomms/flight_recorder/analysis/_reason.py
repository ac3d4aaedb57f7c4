"""Why a rank is taken to be at fault, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from pycomms.flight_recorder.analysis._result import Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """The part of a finding that is judgement; ranks: those to blame."""

    verdict: Verdict
    ranks: tuple[int, ...]
    what: str
    next_step: str
    confidence: float
    would_decide: str = ""
