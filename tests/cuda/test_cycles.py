"""Groups made, split and destroyed many times: threads, descriptors, communicators and memory stay what they were."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist

from tests.multirank._harness import Ranks, context
from tests.multirank._holdings import Holdings
from tests.multirank._tally import FIGURES

from ._breaking import options
from ._group import gpu_backend, nccl, sum_works

_WARM_UP = 10
# What a cycle may leave for good: the keys of two groups in the test's store, which every process keeps a copy of, and
# torch's own memory of names. Beside it malloc may settle at another level than that of the warm-up.
_LEFT_BY_A_CYCLE = 2 << 10
_SETTLING = 2 << 20
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cycle(rank: int, world: int, cycles: int) -> list[Holdings]:
    sum_works(world)
    seen = []
    for number in range(_WARM_UP + cycles):
        dist.destroy_process_group()
        context().init(f"cycle {number}")
        sum_works(world)
        child = gpu_backend().split(context().store(f"child {number}"), [0, 1], options(30.0))
        child.allreduce([torch.ones(4, device="cuda")]).wait()
        torch.cuda.synchronize()
        child.shutdown()
        del child
        seen.append(Holdings.now())
    dist.destroy_process_group()
    assert nccl().live().communicators == 0
    return seen[_WARM_UP:]


@pytest.mark.timeout(620)  # --long
def test_nothing_is_left(ranks: Ranks, long: bool, request: pytest.FixtureRequest) -> None:
    cycles = 500 if long else 40
    for rank, seen in enumerate(ranks.run(cycle, cycles, world=2, fresh=True, timeout=600.0 if long else 110.0)):
        half = cycles // 2
        early, late = seen[:half], seen[half:]
        growth = _PAGE * (min(one.pages for one in late[-10:]) - max(one.pages for one in early[:10]))
        for held in ("threads", "descriptors"):
            assert max(getattr(one, held) for one in late) <= max(getattr(one, held) for one in early)
        request.config.stash[FIGURES].append(
            f"{cycles} cycles on rank {rank}: at most {max(one.threads for one in seen)} threads and "
            f"{max(one.descriptors for one in seen)} descriptors, resident memory {growth / 1024:+.0f} KiB"
        )
        assert growth <= _SETTLING + cycles * _LEFT_BY_A_CYCLE
