"""Groups of CPU tensors that go on without some of their ranks. GPU tensors: tests/cuda/test_shrink.py."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ._errors import needed
from ._harness import Ranks


def _sum(group: Any = None) -> float:
    tensor = torch.full((3,), float(dist.get_rank(group) + 1))
    dist.all_reduce(tensor, group=group)
    return float(tensor[0])


def go_on(rank: int, world: int, dead: list[int], abort: bool) -> None:
    import pycomms

    others: Any = dist.new_group(list(range(world)))
    _sum()
    _sum(others)
    if rank in dead:
        os.kill(os.getpid(), signal.SIGKILL)
    if abort:
        needed(_sum)  # the group has failed already
    size = world - len(dead)
    new = pycomms.shrink_group(dead, abort=abort)
    assert (dist.get_world_size(), dist.get_rank()) == (size, rank - sum(one < rank for one in dead))
    assert dist.get_process_group_ranks(new) == list(range(size))
    assert _sum() == size * (size + 1) / 2
    part: Any = dist.new_group(list(range(size)))
    assert _sum(part) == size * (size + 1) / 2
    assert needed(lambda: _sum(others)).kind == "ValueError"  # torch no longer knows it
    dist.barrier()


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize(("world", "dead"), [(2, [1]), (3, [0]), (4, [1, 2])])
def test_the_default_group_goes_on_without_the_dead(ranks: Ranks, world: int, dead: list[int], abort: bool) -> None:
    with ranks.start(go_on, dead, abort, world=world, fresh=True, group_timeout=20.0) as run:
        run.finish(died=set(dead))
