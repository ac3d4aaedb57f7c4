"""The data types and reductions of the collective contract, and which pairs have a meaning."""

from __future__ import annotations

import torch

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
INTEGERS = (
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)
COMPLEX = (torch.complex64, torch.complex128)
DTYPES = (*FLOATS, *INTEGERS, torch.bool, *COMPLEX, *FLOAT8)

BITWISE = ("BAND", "BOR", "BXOR")
REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "PREMUL_SUM", *BITWISE)


def has_meaning(dtype: torch.dtype, reduction: str) -> bool:
    if dtype in COMPLEX:
        # torch.distributed itself refuses the others on complex tensors before a backend sees them.
        return reduction in ("SUM", "AVG", "PREMUL_SUM")
    if dtype is torch.bool:
        return reduction not in ("AVG", "PREMUL_SUM")
    if dtype in INTEGERS:
        return True
    return reduction not in BITWISE
