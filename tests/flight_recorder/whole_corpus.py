"""All cases of the corpus: each of these modules adds its own when it is imported."""

from __future__ import annotations

from tests.flight_recorder import corpus_absent, corpus_disagreeing, corpus_healthy, corpus_messages
from tests.flight_recorder.corpus import CASES, Case

MODULES = (corpus_absent, corpus_disagreeing, corpus_healthy, corpus_messages)

__all__ = ["CASES", "MODULES", "Case"]
