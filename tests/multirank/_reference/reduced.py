"""The result of reducing the inputs of ranks 0 ... world-1."""

from __future__ import annotations

import functools

import numpy as np
import torch

from .dtypes import COMPLEX, INTEGERS
from .expected import Close, Exact, Expected
from .inputs import Inputs, premul_factor

_NUMPY = {
    "SUM": np.add,
    "PRODUCT": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "BAND": np.bitwise_and,
    "BOR": np.bitwise_or,
    "BXOR": np.bitwise_xor,
}


@functools.cache
def reduced(dtype: torch.dtype, reduction: str, world: int, seed: int, rounds_once: bool) -> Expected:
    """rounds_once: low precision has to accumulate in float32 and be rounded once, as our contract says."""
    inputs = [Inputs(dtype, reduction, seed).period(rank) for rank in range(world)]
    if dtype is torch.bool or dtype in INTEGERS:
        return Exact(_integers(inputs, reduction))
    if reduction in ("MIN", "MAX"):
        stack = torch.stack([values.to(torch.float64) for values in inputs])
        return Exact((stack.amin(0) if reduction == "MIN" else stack.amax(0)).to(dtype))
    return _floats(inputs, reduction, rounds_once)


def _integers(inputs: list[torch.Tensor], reduction: str) -> torch.Tensor:
    values = [tensor.numpy() for tensor in inputs]
    if values[0].dtype == np.bool_:
        names = {"SUM": "BOR", "MAX": "BOR", "PRODUCT": "BAND", "MIN": "BAND"}
        return torch.from_numpy(functools.reduce(_NUMPY[names.get(reduction, reduction)], values))
    if reduction == "PREMUL_SUM":
        values = [value * value.dtype.type(premul_factor(rank)) for rank, value in enumerate(values)]
        reduction = "SUM"
    if reduction != "AVG":
        return torch.from_numpy(functools.reduce(_NUMPY[reduction], values))
    total = functools.reduce(np.add, values)  # the inputs are small enough that it does not overflow
    count = total.dtype.type(len(values))
    towards_zero = np.where(total < 0, -(np.abs(total) // count), total // count)
    return torch.from_numpy(towards_zero.astype(total.dtype))


def _floats(inputs: list[torch.Tensor], reduction: str, rounds_once: bool) -> Close:
    dtype = inputs[0].dtype
    values = torch.stack([tensor.to(torch.complex128 if dtype in COMPLEX else torch.float64) for tensor in inputs])
    if reduction == "PREMUL_SUM":
        values *= torch.tensor([premul_factor(rank) for rank in range(len(inputs))]).unsqueeze(1)
    if reduction == "PRODUCT":
        result, magnitude = values.prod(0), values.abs().prod(0)
    else:
        divisor = len(inputs) if reduction == "AVG" else 1
        result, magnitude = values.sum(0) / divisor, values.abs().sum(0) / divisor
    own = torch.finfo(dtype).eps
    accumulator = min(own, torch.finfo(torch.float32).eps) if rounds_once else own
    # One rounding at the end, and one in the accumulator for every operation on the way.
    bound = own * result.abs() * 0.51 + (len(inputs) + 2) * accumulator * magnitude + torch.finfo(dtype).tiny * own
    return Close(result, bound)
