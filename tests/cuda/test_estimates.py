"""How long a block would take, without running it."""

from __future__ import annotations

import threading
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group, _time_estimator

import pycomms
from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks

from ._group import gpu_backend

_MODEL_US = 10.0  # of the emulated libnccl for each operation, and 1 for each 10 kB


def estimate(rank: int, world: int) -> None:
    tensors = [torch.ones(25000, device="cuda") for _ in range(3)]
    with _time_estimator(device=torch.device("cuda")) as first:
        for tensor in tensors:
            dist.all_reduce(tensor)
    assert first.estimated_time == 3 * (_MODEL_US + 10.0)
    with _time_estimator(device=torch.device("cuda")) as second:
        dist.all_reduce(tensors[0])
        dist.all_gather_single(torch.empty(25000 * world, device="cuda"), tensors[1])
        dist.broadcast(tensors[2], 0)
    assert second.estimated_time == first.estimated_time
    with _time_estimator(device=torch.device("cuda")) as nothing:
        pass
    assert nothing.estimated_time == 0
    torch.cuda.synchronize()
    assert all(tensor.eq(1).all() for tensor in tensors)  # nothing has run
    dist.all_reduce(tensors[0])
    assert tensors[0][0] == world


def test_estimates(ranks: Ranks) -> None:
    ranks.run(estimate, world=2)


def refusals(rank: int, world: int) -> None:
    def on_cpu() -> None:
        with _time_estimator(device=torch.device("cuda")):
            dist.all_reduce(torch.ones(4))

    assert needed(on_cpu).kind == "ValueError"
    assert needed(gpu_backend()._end_time_estimate).kind == "ValueError"
    tensor = torch.ones(4, device="cuda")
    dist.all_reduce(tensor)
    assert tensor[0] == world


def test_refusals(ranks: Ranks) -> None:
    ranks.run(refusals, world=2)


def estimate_composed(rank: int, world: int) -> None:
    """Of one rank alone: nothing is sent, and nothing is written."""
    whole = torch.full((64 * world,), 7, dtype=torch.int16, device="cuda")
    part = torch.full((64,), -1, dtype=torch.int16, device="cuda")
    dist.barrier(device_ids=[0])
    if rank == 0:
        with _time_estimator(device=torch.device("cuda")) as estimated:
            dist.all_reduce(whole)
            dist.reduce_scatter_single(part, whole)
        assert estimated.estimated_time is not None
        torch.cuda.synchronize()
        assert whole.eq(7).all()
        assert part.eq(-1).all()
    dist.all_reduce(whole)
    assert whole.eq(7 * world).all()


def test_composed_reductions_are_not_run(ranks: Ranks) -> None:
    ranks.run(estimate_composed, world=2, group_timeout=10.0)


def estimate_nan(rank: int, world: int) -> None:
    group: Any = dist.new_group(pg_options=pycomms.Options(nan_check=pycomms.NanCheck.NAN))
    tensor = torch.full((4,), float("nan"), device="cuda")
    with _time_estimator(group=group, device=torch.device("cuda")):
        dist.all_reduce(tensor, group=group)
    torch.cuda.synchronize()
    dist.barrier(group)
    tensor.fill_(1)
    dist.all_reduce(tensor, group=group)
    assert tensor[0] == world


def test_what_is_not_sent_is_not_looked_at(ranks: Ranks) -> None:
    ranks.run(estimate_nan, world=2)


def end_elsewhere(rank: int, world: int) -> list[Caught]:
    """NCCL's group is open on the thread that began it."""
    group = _get_default_group()
    backend: Any = group._get_backend(torch.device("cuda"))
    device = torch.device("cuda", torch.cuda.current_device())
    tensor = torch.ones(4, device=device)
    caught: list[Caught] = []

    def elsewhere(end: Any) -> None:
        thread = threading.Thread(target=lambda: caught.append(needed(end)))
        thread.start()
        thread.join()

    backend._start_time_estimate()
    dist.all_reduce(tensor)
    elsewhere(backend._end_time_estimate)
    assert backend._end_time_estimate() > 0
    group._start_coalescing(device)
    dist.all_reduce(tensor)
    elsewhere(lambda: group._end_coalescing(device))
    group._end_coalescing(device).wait()
    assert tensor[0] == world
    return caught


def test_a_block_is_ended_by_the_thread_that_began_it(ranks: Ranks) -> None:
    for caught in ranks.run(end_elsewhere, world=2):
        assert [one.kind for one in caught] == ["ValueError"] * 2
        assert all("another thread" in one.text for one in caught), caught
