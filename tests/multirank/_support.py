"""Which cases a backend is asked. Ours is asked all of them. Gloo is asked what it can do: the tests are tried on it,
too, so that they are not only as right as our backend is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ._reference.dtypes import BITWISE

if TYPE_CHECKING:
    from ._ops import Case

_GLOO_DTYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.int8, torch.uint8)
_GLOO_LACKS = ("all_gather_uneven", "gather_into_tensor", "reduce_scatter_uneven", "all_to_all", "all_to_all_uneven")


def supported(backend: str, case: Case) -> bool:
    if backend == "nccl2":
        return True
    if case.op in _GLOO_LACKS or "coalesced" in case.op or case.reduction in ("AVG", "PREMUL_SUM"):
        return False
    return case.dtype in _GLOO_DTYPES and not (case.reduction in BITWISE and case.dtype.is_floating_point)
