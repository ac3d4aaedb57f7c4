"""Tensors that hold one NaN or infinity, and the operations that send them: for both devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

FLOATS = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.complex128,
)
NAN, INF = float("nan"), float("inf")


def can_hold(dtype: torch.dtype, value: float) -> bool:
    return abs(value) != INF or dtype is not torch.float8_e4m3fn


def with_one(value: float, dtype: torch.dtype = torch.float32, count: int = 101, device: str = "cpu") -> torch.Tensor:
    """Not in the first element, and of complex numbers in the imaginary part."""
    if dtype.is_complex:
        numbers = torch.full((count, 2), -1.5, dtype=torch.float64)
        numbers[count // 2, 1] = value
        return torch.view_as_complex(numbers).to(dtype).to(device)
    plain = torch.full((count,), -1.5, dtype=torch.float64)
    plain[count // 2] = value
    return plain.to(dtype).to(device)


Issue = Callable[..., Any]  # (tensor, rank, world, async_op=..., group=...)


def _gather(x: torch.Tensor, rank: int, world: int, **how: Any) -> Any:
    return dist.gather(x, [torch.empty_like(x) for _ in range(world)] if rank == 0 else None, **how)


def _scatter(x: torch.Tensor, rank: int, world: int, **how: Any) -> Any:
    return dist.scatter(torch.empty_like(x), [x] * world if rank == 0 else None, **how)


def _all_gather(x: torch.Tensor, rank: int, world: int, **how: Any) -> Any:
    return dist.all_gather([torch.empty_like(x) for _ in range(world)], x, **how)


def _reduce_scatter(x: torch.Tensor, rank: int, world: int, **how: Any) -> Any:
    return dist.reduce_scatter(torch.empty_like(x), [x] * world, **how)


def _all_to_all(x: torch.Tensor, rank: int, world: int, **how: Any) -> Any:
    return dist.all_to_all([torch.empty_like(x) for _ in range(world)], [x] * world, **how)


# name: (issue, whether ranks other than 0 send anything)
SENDERS: dict[str, tuple[Issue, bool]] = {
    "all_reduce": (lambda x, rank, world, **how: dist.all_reduce(x, **how), True),
    "reduce": (lambda x, rank, world, **how: dist.reduce(x, 0, **how), True),
    "broadcast": (lambda x, rank, world, **how: dist.broadcast(x, 0, **how), False),
    "gather": (_gather, True),
    "scatter": (_scatter, False),
    "all_gather": (_all_gather, True),
    "reduce_scatter": (_reduce_scatter, True),
    "all_to_all": (_all_to_all, True),
}
