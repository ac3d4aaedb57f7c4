"""The correctness matrix on GPU tensors: every operation x data type x reduction x size x {sync, async}."""

from __future__ import annotations

import pytest
import torch

from tests.multirank._harness import Ranks
from tests.multirank._ops import Case
from tests.multirank._reference.dtypes import BITWISE
from tests.multirank.test_matrix import moving_cases, reducing_cases, run_cases

WORLDS = [1, 2, 4]
NCCL_CANNOT_COMPUTE = (torch.int16, torch.uint16)


def nccl_can_move(case: Case) -> bool:
    """NCCL runs a rank's operations one after the other: sends and receives that cross belong into a batch."""
    return case.op != "isend_irecv"


def nccl_can_reduce(case: Case) -> bool:
    """Without being composed: test_composed_reductions.py has the others."""
    if case.dtype is torch.bool:
        return case.reduction != "BXOR"
    return case.dtype not in NCCL_CANNOT_COMPUTE and case.reduction not in BITWISE


@pytest.mark.parametrize("world", WORLDS)
def test_moving(ranks: Ranks, world: int, request: pytest.FixtureRequest) -> None:
    run_cases(ranks, world, [case for case in moving_cases(world) if nccl_can_move(case)], request, "cuda")


@pytest.mark.parametrize("world", WORLDS)
def test_reducing(ranks: Ranks, world: int, request: pytest.FixtureRequest) -> None:
    run_cases(ranks, world, [case for case in reducing_cases(world) if nccl_can_reduce(case)], request, "cuda")
