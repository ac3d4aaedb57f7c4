"""Large groups start with several unique ids."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.multirank._harness import Ranks


def start(rank: int, world: int, ranks_per_root: int) -> tuple[int, int]:
    import pycomms

    from ._preload import nccl  # on a rank only

    options = pycomms.Options(timeout=timedelta(seconds=30), ranks_per_root=ranks_per_root)
    group: Any = dist.new_group(list(range(world)), pg_options=options)
    before = nccl.all_calls()
    tensor = torch.ones(4, device="cuda")
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [world] * 4
    after = nccl.all_calls()
    names = ("ncclGetUniqueId", "ncclCommInitRankScalable")
    ids, scalable = (after.get(name, 0) - before.get(name, 0) for name in names)
    return ids, scalable


@pytest.mark.parametrize(("ranks_per_root", "makers"), [(1, [0, 1, 2, 3]), (2, [0, 2]), (3, [0, 2]), (4, []), (0, [])])
def test_roots(ranks: Ranks, ranks_per_root: int, makers: list[int]) -> None:
    answers = ranks.run(start, ranks_per_root, world=4)
    assert [rank for rank, (ids, _) in enumerate(answers) if ids == 1] == (makers or [0])
    assert [scalable for _, scalable in answers] == [1 if makers else 0] * 4
