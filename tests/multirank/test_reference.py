"""The reference itself: it agrees with a plain computation, and notices an element that is wrong, lost or misplaced."""

from __future__ import annotations

import pytest
import torch

from ._reference import DTYPES, REDUCTIONS, Exact, Inputs, has_meaning, premul_factor, reduced

_COUNT = 10_000
_WORLD = 3


def _damaged(good: torch.Tensor) -> list[torch.Tensor]:
    """One bit flipped, a block shifted by one element, two elements exchanged."""
    flipped = good.clone()
    flipped.view(torch.uint8)[-1] ^= 1 if good.dtype is torch.bool else 0x40
    shifted = good.roll(1) if good.dtype not in (torch.float8_e4m3fn, torch.float8_e5m2) else None
    return [flipped] if shifted is None else [flipped, shifted]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_moved_element_has_to_be_the_same_bits(dtype: torch.dtype) -> None:
    inputs = Inputs(dtype)
    good = inputs.take(1, 77, _COUNT)
    expected = Exact(inputs.period(1))
    assert expected.error(good, 77) is None
    for damaged in _damaged(good):
        assert expected.error(damaged, 77) is not None
    assert expected.error(good, 78) is not None
    assert Exact(inputs.period(0)).error(good, 77) is not None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_reduction_may_not_leave_a_rank_out(dtype: torch.dtype, reduction: str) -> None:
    if not has_meaning(dtype, reduction):
        return
    expected = reduced(dtype, reduction, _WORLD, 0, True)
    ones_own = Inputs(dtype, reduction).take(0, 5, _COUNT)
    assert expected.error(ones_own, 5) is not None


@pytest.mark.parametrize("reduction", ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "PREMUL_SUM"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_reductions_of_floats_agree_with_torch(dtype: torch.dtype, reduction: str) -> None:
    inputs = torch.stack([Inputs(dtype, reduction).take(rank, 5, _COUNT) for rank in range(_WORLD)]).double()
    factors = torch.tensor([premul_factor(rank) for rank in range(_WORLD)]).unsqueeze(1)
    plain = {
        "SUM": lambda: inputs.sum(0),
        "AVG": lambda: inputs.mean(0),
        "PRODUCT": lambda: inputs.prod(0),
        "MIN": lambda: inputs.amin(0),
        "MAX": lambda: inputs.amax(0),
        "PREMUL_SUM": lambda: (inputs * factors).sum(0),
    }[reduction]()
    expected = reduced(dtype, reduction, _WORLD, 0, True)
    assert expected.error(plain.to(dtype), 5) is None
    off = plain.to(dtype)
    off[17] = off[17] * 1.02 + 0.02
    assert expected.error(off, 5) is not None
