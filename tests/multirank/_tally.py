"""How many combinations were checked: counted on the ranks, shown at the end of the session. No torch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

CHECKED = pytest.StashKey[Counter[str]]()


@dataclass(frozen=True)
class Tally:
    """What one rank found."""

    checked: dict[str, int]
    failures: list[str]
    digests: list[tuple[str, int]]  # of what every rank must have got alike
