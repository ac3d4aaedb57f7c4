"""Training on GPU tensors: DDP, FSDP2, DTensor and functional collectives, against one process."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import (
    all_gather_tensor,
    all_reduce,
    all_to_all_single,
    broadcast,
    reduce_scatter_tensor,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from tests.multirank._harness import Ranks

from ._delays import DELAYS, delayed

_STEPS = 5
_BATCH = 8  # per rank


def _model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).double()


def _data(world: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    inputs = torch.randn(_STEPS, world * _BATCH, 16, generator=generator, dtype=torch.float64)
    return inputs, inputs[..., :4].sin()


def _losses(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for x, y in zip(inputs, targets, strict=True):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def _alone(world: int) -> list[float]:
    inputs, targets = _data(world)
    return [float(loss) for loss in _losses(_model(), inputs, targets)]


def train(rank: int, world: int, kind: str, delays: str) -> list[float]:
    inputs, targets = (whole[:, rank * _BATCH : (rank + 1) * _BATCH].cuda() for whole in _data(world))
    with delayed(delays):
        model = _model().cuda()
        if kind == "ddp":
            losses = _losses(DistributedDataParallel(model, bucket_cap_mb=1), inputs, targets)
        else:
            mesh = init_device_mesh("cuda", (world,))
            fully_shard(model, mesh=mesh)
            losses = _losses(model, inputs, targets)
        everyone = torch.stack([loss.reshape(()) for loss in losses])
        dist.all_reduce(everyone, dist.ReduceOp.AVG)
        return everyone.tolist()


def train_as_one_process(rank: int, world: int, kind: str, delays: str) -> None:
    assert train(rank, world, kind, delays) == pytest.approx(_alone(world), rel=1e-9)


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_training_is_that_of_one_process(ranks: Ranks, kind: str, world: int, delays: str) -> None:
    ranks.run(train_as_one_process, kind, delays, world=world, timeout=110.0)


def use_dtensor(rank: int, world: int) -> None:
    mesh = init_device_mesh("cuda", (world,))
    torch.manual_seed(1)
    a, b = torch.randn(8, 12).cuda(), torch.randn(12, 4).cuda()
    by_rows, by_columns = distribute_tensor(a, mesh, [Shard(1)]), distribute_tensor(b, mesh, [Shard(0)])
    product = by_rows @ by_columns
    assert isinstance(product, DTensor)
    product = product.redistribute(mesh, [Replicate()]).to_local()
    torch.testing.assert_close(product.cpu(), (a @ b).cpu())


@pytest.mark.parametrize("world", [2, 4])
def test_dtensor(ranks: Ranks, world: int) -> None:
    ranks.run(use_dtensor, world=world)


def use_functional(rank: int, world: int) -> None:
    group = dist.group.WORLD
    assert group is not None
    mine = torch.full((6,), float(rank + 1), device="cuda")
    total = all_reduce(mine, "sum", group)
    gathered = all_gather_tensor(mine, 0, group)
    from_last = broadcast(mine, world - 1, group)
    each = torch.arange(2.0 * world, device="cuda") + rank
    part = reduce_scatter_tensor(each, "sum", 0, group)
    exchanged = all_to_all_single(each, None, None, group)
    assert total.cpu().tolist() == [world * (world + 1) / 2] * 6
    assert gathered.cpu().reshape(world, 6)[:, 0].tolist() == [float(r + 1) for r in range(world)]
    assert from_last.cpu().tolist() == [float(world)] * 6
    others = world * (world - 1) / 2
    assert part.cpu().tolist() == [2.0 * rank * world + others, (2.0 * rank + 1) * world + others]
    assert exchanged.cpu().reshape(world, 2)[:, 0].tolist() == [2.0 * rank + r for r in range(world)]


@pytest.mark.parametrize("world", [2, 4])
def test_functional_collectives(ranks: Ranks, world: int) -> None:
    ranks.run(use_functional, world=world)
