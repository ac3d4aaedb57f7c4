"""The input of every rank: an endless sequence that repeats after a prime number of elements. Repeating makes large
messages cheap to make and to check; a prime period means that no chunk, vector or rank count divides it, so a block
that lands in the wrong place shows.
"""

from __future__ import annotations

import functools

import numpy as np
import torch

from .dtypes import COMPLEX, INTEGERS

PERIOD = 4093


class Inputs:
    def __init__(self, dtype: torch.dtype, reduction: str = "", seed: int = 0) -> None:
        """`reduction` chooses values that it can be checked on; without one the elements are any bits."""
        self.dtype = dtype
        self._reduction = reduction
        self._seed = seed

    def period(self, rank: int) -> torch.Tensor:
        return _period(self.dtype, self._reduction, self._seed, rank)

    def take(self, rank: int, start: int, count: int) -> torch.Tensor:
        """A fresh tensor with elements start ... start+count of what `rank` puts in."""
        return repeat(self.period(rank), start, count)


def premul_factor(rank: int) -> int:
    """Factor of PREMUL_SUM: differs by rank, and is exact in every data type."""
    return rank % 3 + 1


def repeat(period: torch.Tensor, start: int, count: int) -> torch.Tensor:
    # Over bytes: some data types have no kernels but copies of bytes.
    size = period.element_size()
    rows = period.view(torch.uint8).view(PERIOD, size).roll(-(start % PERIOD), 0)
    times = -(-count // PERIOD)
    return rows.repeat(times, 1)[:count].reshape(-1).view(period.dtype) if count else period[:0].clone()


@functools.cache
def _period(dtype: torch.dtype, reduction: str, seed: int, rank: int) -> torch.Tensor:
    generator = np.random.default_rng([seed, rank])
    if dtype is torch.bool:
        return torch.from_numpy(generator.integers(0, 2, PERIOD).astype(bool))
    size = torch.empty(0, dtype=dtype).element_size()
    if not reduction or (dtype in INTEGERS and reduction != "AVG"):
        return torch.from_numpy(generator.integers(0, 256, PERIOD * size, dtype=np.uint8)).view(dtype)
    if dtype in INTEGERS:
        limit = torch.iinfo(dtype)
        small = generator.integers(limit.min // 8, limit.max // 8, PERIOD, dtype=np.int64)
        return torch.from_numpy(small).to(dtype)
    # No zero (its sign would be ambiguous), nothing so large that the result leaves float8's range.
    low, high = (0.5, 1.5) if reduction == "PRODUCT" else (0.25, 3.0)
    shape = (PERIOD, 2) if dtype in COMPLEX else (PERIOD,)
    values = torch.from_numpy(generator.uniform(low, high, shape) * generator.choice([-1.0, 1.0], shape))
    return (torch.view_as_complex(values) if dtype in COMPLEX else values).to(dtype)
