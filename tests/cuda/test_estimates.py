"""How long a block would take, without running it."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group, _time_estimator

from tests.multirank._errors import needed
from tests.multirank._harness import Ranks

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
    backend = _get_default_group()._get_backend(torch.device("cuda"))
    assert needed(backend._end_time_estimate).kind == "ValueError"  # type: ignore[attr-defined]
    tensor = torch.ones(4, device="cuda")
    dist.all_reduce(tensor)
    assert tensor[0] == world


def test_refusals(ranks: Ranks) -> None:
    ranks.run(refusals, world=2)
