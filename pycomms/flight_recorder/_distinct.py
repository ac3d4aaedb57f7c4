"""The distinct values of an array. numpy's own ``unique`` imports a part of numpy that takes 20 ms, a good part of
what a command has to start in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def distinct(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Sorted, and for each of `values` where it is among them."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    is_first = np.ones(len(values), bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    place = np.empty(len(values), np.intp)
    place[order] = np.cumsum(is_first) - 1
    return ordered[is_first], place
