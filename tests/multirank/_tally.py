"""What the tests counted and measured, to be shown at the end of the session. No torch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

CHECKED = pytest.StashKey[Counter[str]]()
FIGURES = pytest.StashKey[list[str]]()


@dataclass(frozen=True)
class Tally:
    """What one rank found."""

    checked: dict[str, int]
    failures: list[str]
    digests: list[tuple[str, int]]  # of what every rank must have got alike
