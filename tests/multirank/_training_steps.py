"""Models that are trained on a group whose members change. The gradient of rank r is r + 1, so that its average tells
how many took part and by how many it was divided.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

_WIDTH = 12  # divides by 1, 2, 3 and 4

_models: dict[str, Any] = {}


def _model() -> torch.nn.Sequential:
    """Several buckets in DDP, several groups of parameters in FSDP2."""
    return torch.nn.Sequential(*(torch.nn.Linear(_WIDTH, _WIDTH, bias=False) for _ in range(3))).double()


def _step(model: Any) -> None:
    """One backward. The loss is linear in each weight, with the rank in its slope."""
    model.zero_grad()
    slope = float(dist.get_rank() + 1)
    output = model(torch.ones(1, _WIDTH, dtype=torch.float64))
    (output.sum() * slope).backward()


def _expected(model: Any) -> list[torch.Tensor]:
    """Gradients of slope 1 on one process, times the average slope."""
    average = (dist.get_world_size() + 1) / 2
    alone = _model()
    weights = [_full(parameter) for parameter in model.parameters()]
    for mine, weight in zip(alone.parameters(), weights, strict=True):
        mine.data.copy_(weight)
    alone(torch.ones(1, _WIDTH, dtype=torch.float64)).sum().backward()
    return [average * parameter.grad for parameter in alone.parameters() if parameter.grad is not None]


def _full(tensor: Any) -> torch.Tensor:
    whole: torch.Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole.detach()


def _train(name: str) -> None:
    model = _models[name]
    _step(model)
    expected = _expected(model)
    assert len(expected) == 3
    for parameter, wanted in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(_full(parameter.grad), wanted, rtol=1e-12, atol=1e-12)


def make_ddp() -> None:
    torch.manual_seed(0)
    _models["ddp"] = DistributedDataParallel(_model(), bucket_cap_mb=0.001)
    for _ in range(2):
        train_ddp()


def train_ddp() -> None:
    _train("ddp")


def make_hsdp() -> None:
    """Ranks x 1: a replica on each rank."""
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("replicate", "shard"))
    model = _model()
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    _models["hsdp"] = model
    train_hsdp()


def train_hsdp() -> None:
    _train("hsdp")


def make_fsdp() -> None:
    torch.manual_seed(0)
    model = _model()
    fully_shard(model)
    _models["fsdp"] = model
    train_fsdp()


def train_fsdp() -> None:
    _train("fsdp")
