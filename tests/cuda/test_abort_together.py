"""Groups that are aborted together: as one group of NCCL, so that none waits for another's kernels."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from tests.multirank._errors import needed
from tests.multirank._harness import Ranks, context


def _works() -> None:
    tensor = torch.ones(4, device="cuda")
    dist.all_reduce(tensor)
    assert tensor.tolist() == [float(dist.get_world_size())] * 4


def abort_all(rank: int, world: int, others: int) -> float:
    """Every group has an operation that waits for one of another group."""
    from ._preload import nccl  # on a rank only

    groups: list[Any] = [dist.new_group(list(range(world))) for _ in range(others)]
    tensor = torch.ones(4, device="cuda")
    for group in [None, *groups]:
        dist.all_reduce(tensor, group=group)
    torch.cuda.synchronize()
    for group in groups if rank == 0 else reversed(groups):
        dist.all_reduce(tensor, group=group)
    context().signpost(f"issued on {rank}")
    if rank == 0:
        for other in range(world):
            context().await_signpost(f"issued on {other}")
    else:  # until rank 0 has counted: the groups that it ends are lost here, and aborted by the supervisor
        context().await_signpost("aborted")
    nccl.reset_calls()
    begun = time.monotonic()
    dist.distributed_c10d._abort_process_group()
    seconds = time.monotonic() - begun
    if rank == 0:
        assert nccl.calls("ncclCommAbort") == others + 1
        assert (nccl.calls("ncclGroupStart"), nccl.calls("ncclGroupEnd")) == (1, 1)
        assert nccl.live().communicators == 0
        context().signpost("aborted")
    context().init("after", timeout=30.0)
    _works()
    return seconds


def test_eight_groups_are_aborted_as_one(ranks: Ranks) -> None:
    for seconds in ranks.run(abort_all, 7, world=2, fresh=True, timeout=60.0):
        assert seconds < 10.0


def abort_on_cpu(rank: int, world: int) -> None:
    """The block that torch opens for it is of a group that has no GPU."""
    other: Any = dist.new_group(list(range(world)))
    dist.all_reduce(torch.ones(1), group=other)
    dist.distributed_c10d._abort_process_group()
    context().init("after", timeout=30.0)
    dist.all_reduce(torch.ones(1))


def test_groups_of_the_cpu(ranks: Ranks) -> None:
    ranks.run(abort_on_cpu, world=2)


def abort_one_of_two(rank: int, world: int) -> None:
    other: Any = dist.new_group(list(range(world)))
    dist.all_reduce(torch.ones(1, device="cuda"), group=other)
    _works()
    dist.barrier()
    dist.distributed_c10d._abort_process_group(other)
    caught = needed(lambda: dist.all_reduce(torch.ones(1, device="cuda"), group=other))
    assert caught.kind == "ValueError" or "Communicator" in caught.kind, caught
    _works()


def test_one_of_two_groups(ranks: Ranks) -> None:
    ranks.run(abort_one_of_two, world=2)
