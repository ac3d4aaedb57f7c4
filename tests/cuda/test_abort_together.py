"""Groups that are aborted together, or one after the other: none may wait for another's kernels."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _abort_process_group, _get_default_group

from tests.multirank._errors import needed
from tests.multirank._harness import Ranks, context

from ._group import meet, nccl, sum_works

_GROUPS = 8
_BOUND_S = 8.0  # less than the ten seconds after which the backend gives up waiting for an engine


def abort_all(rank: int, world: int) -> float:
    """Every group has an operation that waits for one of another group."""
    groups: list[Any] = [dist.new_group(list(range(world))) for _ in range(_GROUPS - 1)]
    tensor = torch.ones(4, device="cuda")
    for group in [None, *groups]:
        dist.all_reduce(tensor, group=group)
    torch.cuda.synchronize()
    for group in groups if rank == 0 else reversed(groups):
        dist.all_reduce(tensor, group=group)
    meet("issued", rank, world)
    if rank != 0:  # until rank 0 has counted: the groups that it ends are lost here, and aborted by the supervisor
        context().await_signpost("aborted")
    nccl().reset_calls()
    begun = time.monotonic()
    _abort_process_group()
    seconds = time.monotonic() - begun
    if rank == 0:
        assert nccl().calls("ncclCommAbort") == _GROUPS
        assert (nccl().calls("ncclGroupStart"), nccl().calls("ncclGroupEnd")) == (1, 1)
        assert nccl().live().communicators == 0
        context().signpost("aborted")
    context().init("after", timeout=30.0)
    sum_works(world)
    return seconds


def test_eight_groups_are_aborted_as_one(ranks: Ranks) -> None:
    for seconds in ranks.run(abort_all, world=2, fresh=True, timeout=60.0):
        assert seconds < _BOUND_S


def _stuck_groups(rank: int, world: int) -> list[Any]:
    """Groups whose operations on this GPU never end, each on a stream of its own."""
    groups: list[Any] = [dist.new_group(list(range(world))) for _ in range(_GROUPS)]
    for group in groups:
        sum_works(world, group)
    for group in groups:
        if rank == 0:
            nccl().hang_operation()
        dist.all_reduce(torch.ones(4, device="cuda"), group=group, async_op=True)
    if rank == 0:
        assert nccl().faults_struck() == _GROUPS
    return groups


def together(rank: int, world: int, how: str, waits: bool) -> float:
    """Seconds until the GPU has nothing left to do."""
    groups = _stuck_groups(rank, world)
    if waits:
        nccl().abort_waits_for_device()
    meet("stuck", rank, world)
    begin = time.monotonic()
    if how == "one thread":
        for group in groups:
            group.abort()
    elif how == "threads":
        with ThreadPoolExecutor(_GROUPS) as threads:
            list(threads.map(lambda group: group.abort(), groups))
    else:  # torch's own, of all groups in a coalesced block
        _abort_process_group()
    torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    if dist.is_initialized():
        dist.destroy_process_group()
    context().init("after")
    sum_works(world)
    return seconds


@pytest.mark.parametrize("waits", [False, True], ids=["", "waits for the GPU"])
@pytest.mark.parametrize("how", ["one thread", "threads", "torch"])
def test_eight_groups_together(ranks: Ranks, how: str, waits: bool) -> None:
    """`waits`: the engine's abort returns when the GPU has nothing left to do, as the real one may: the abort of one
    group then ends only when the others have been aborted too.
    """
    for seconds in ranks.run(together, how, waits, world=2, group_timeout=60.0, fresh=True, timeout=110.0):
        assert seconds < _BOUND_S


def abort_on_cpu(rank: int, world: int) -> None:
    """The block that torch opens for it is of a group that has no GPU."""
    other: Any = dist.new_group(list(range(world)))
    dist.all_reduce(torch.ones(1), group=other)
    _abort_process_group()
    context().init("after", timeout=30.0)
    dist.all_reduce(torch.ones(1))


def test_groups_of_the_cpu(ranks: Ranks) -> None:
    ranks.run(abort_on_cpu, world=2)


def abort_one_of_two(rank: int, world: int) -> None:
    other: Any = dist.new_group(list(range(world)))
    dist.all_reduce(torch.ones(1, device="cuda"), group=other)
    sum_works(world)
    dist.barrier()
    _abort_process_group(other)
    caught = needed(lambda: dist.all_reduce(torch.ones(1, device="cuda"), group=other))
    assert caught.kind == "ValueError" or "Communicator" in caught.kind, caught
    sum_works(world)


def test_one_of_two_groups(ranks: Ranks) -> None:
    ranks.run(abort_one_of_two, world=2)


def abort_in_a_block(rank: int, world: int) -> None:
    """torch aborts all groups in a block of the default one. The block ends with the group."""
    sum_works(world)
    group = _get_default_group()
    device = torch.device("cuda", torch.cuda.current_device())
    meet("ready", rank, world)
    group._start_coalescing(device)
    dist.broadcast(torch.ones(4, device="cuda"), 0)
    group.abort()
    work: Any = group._end_coalescing(device)
    work.wait()


def test_an_abort_ends_the_block_around_it(ranks: Ranks) -> None:
    ranks.run(abort_in_a_block, world=2, fresh=True)
