"""Tensors in NCCL's own memory: allocate_tensor, mem_allocator, and FSDP2 whose buffers are there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from tests.multirank._harness import Ranks

from ._delays import DELAYS
from ._memory import Registered, backend, collect, nccl, registered, sum_in_place_works, sum_works
from .test_training import _BATCH, _alone, _data, _losses, _model


def allocate(rank: int, world: int) -> None:
    mine: Any = backend()
    device = torch.device("cuda", 0)
    assert mine.supports_tensor_alloc(device)
    tensor = mine.allocate_tensor(1000, dtype=torch.float32, device=device)
    assert (tensor.shape, tensor.dtype, tensor.device) == ((1000,), torch.float32, device)
    assert nccl().calls("ncclMemAlloc") == 1
    sum_in_place_works(tensor, world)
    assert registered() == Registered(1, 0)
    # More than fits into the first segment: the second is registered by itself, for these tensors are the group's.
    large = mine.allocate_tensor(64 << 20, dtype=torch.uint8, device=device)
    sum_in_place_works(large, world)
    assert registered() == Registered(2, 0)
    # torch caches what is freed.
    del large
    again = mine.allocate_tensor(64 << 20, dtype=torch.uint8, device=device)
    sum_in_place_works(again, world)
    assert nccl().calls("ncclMemAlloc") == 2

    empty = mine.allocate_tensor(0, dtype=torch.float32, device=device)
    assert empty.numel() == 0
    with pytest.raises(ValueError, match="allocate_tensor: size must not be negative, got -1"):
        mine.allocate_tensor(-1, dtype=torch.float32, device=device)
    on_cpu = mine.allocate_tensor(10, dtype=torch.float32, device=torch.device("cpu"))
    dist.all_reduce(on_cpu.fill_(1))
    assert on_cpu.tolist() == [float(world)] * 10

    # They outlive the group.
    tensor.fill_(5)
    del mine
    dist.destroy_process_group()
    assert registered() == Registered(0, 0)
    assert tensor.tolist() == [5.0] * 1000
    del tensor, again, empty
    collect()
    assert nccl().calls("ncclMemFree") == 2


@pytest.mark.parametrize("world", [1, 2, 4])
def test_allocate_tensor(ranks: Ranks, world: int) -> None:
    ranks.run(allocate, world=world, fresh=True)


def out_of_memory(rank: int, world: int) -> None:
    mine: Any = backend()
    with pytest.raises(torch.OutOfMemoryError):
        mine.allocate_tensor(1 << 40, dtype=torch.uint8, device=torch.device("cuda", 0))
    sum_works(rank, world)


def test_out_of_memory(ranks: Ranks) -> None:
    ranks.run(out_of_memory, world=2, fresh=True)


def train(rank: int, world: int, delays: str) -> list[float]:
    from ._preload import emulator  # on a rank only

    inputs, targets = (whole[:, rank * _BATCH : (rank + 1) * _BATCH].cuda() for whole in _data(world))
    with emulator.delays(DELAYS[delays]):
        model: Any = _model().cuda()
        for layer in model:
            if any(True for _ in layer.parameters()):
                fully_shard(layer, mesh=init_device_mesh("cuda", (world,)))
        fully_shard(model, mesh=init_device_mesh("cuda", (world,)))
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_allocate_memory_from_process_group_for_comm(True)
        losses = _losses(model, inputs, targets)
        assert nccl().calls("ncclMemAlloc") > 0
        assert registered().buffers == nccl().calls("ncclMemAlloc")  # all of it is used in place
        everyone = torch.stack([loss.reshape(()) for loss in losses])
        dist.all_reduce(everyone, dist.ReduceOp.AVG)
        return everyone.tolist()


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("world", [2, 4])
def test_fsdp2_in_the_groups_memory(ranks: Ranks, world: int, delays: str) -> None:
    expected = _alone(world)
    for losses in ranks.run(train, delays, world=world, fresh=True, timeout=110.0):
        assert losses == pytest.approx(expected, rel=1e-9)
