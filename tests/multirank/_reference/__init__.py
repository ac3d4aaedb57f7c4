"""What an operation has to produce, computed by one process alone: the inputs of all ranks come from a seed, reductions
are done in float64 (floats) or in Python's own integers' arithmetic modulo 2^n (integers). No communication here.
"""

from __future__ import annotations

from .dtypes import DTYPES, REDUCTIONS, has_meaning
from .expected import Close, Exact, Expected
from .inputs import Inputs, premul_factor
from .reduced import reduced

__all__ = [
    "DTYPES",
    "REDUCTIONS",
    "Close",
    "Exact",
    "Expected",
    "Inputs",
    "has_meaning",
    "premul_factor",
    "reduced",
]
