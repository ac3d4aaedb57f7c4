"""Fully sharded training (FSDP2) on CPU tensors, checked against the same training without sharding.

    torchrun --standalone --nproc-per-node 4 examples/train_fsdp2.py --backend nccl2

fully_shard leaves each rank 1/N of every weight: it all-gathers a layer before use and reduce-scatters its gradients.
Each rank trains on its part of the batch; a second, whole model trains on all of it. Both must end at the same weights.
"""

import argparse
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.functional import cross_entropy

STEPS = 20
BATCH = 48  # over all ranks; the ranks take equal parts


def make_model() -> nn.Sequential:
    torch.manual_seed(1)
    # 37 is odd on purpose: rows do not divide evenly among the ranks.
    return nn.Sequential(nn.Linear(20, 37), nn.ReLU(), nn.Linear(37, 37), nn.ReLU(), nn.Linear(37, 5)).double()


def make_batch(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(BATCH, 20, generator=generator, dtype=torch.float64)
    return inputs, inputs[:, :5].argmax(dim=1)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, labels: Tensor) -> float:
    optimizer.zero_grad()
    loss = cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def check_weight(name: str, weight: Tensor, expected: Tensor) -> None:
    """The rank holds no more than its part of the weight, and the parts together are the expected one."""
    assert isinstance(weight, DTensor), name
    held, part = weight.to_local().shape[0], -(-expected.shape[0] // dist.get_world_size())
    assert held <= part, f"{name}: rank {dist.get_rank()} holds {held} rows, its part is {part}"
    torch.testing.assert_close(weight.full_tensor(), expected, rtol=0, atol=1e-12, msg=lambda m: f"{name}: {m}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["nccl2", "gloo"], default="nccl2")
    args = parser.parse_args()
    if args.backend == "nccl2":
        import pycomms  # noqa: F401  # the import registers the backend
    torch.set_num_threads(1)
    dist.init_process_group(args.backend, timeout=timedelta(seconds=60))
    try:
        rank, ranks = dist.get_rank(), dist.get_world_size()
        whole, sharded = make_model(), make_model()
        mesh = init_device_mesh("cpu", (ranks,))
        for layer in sharded:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(sharded, mesh=mesh)
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (whole, sharded)]

        for step in range(STEPS):
            inputs, labels = make_batch(step)
            loss = train_step(whole, optimizers[0], inputs, labels)
            train_step(sharded, optimizers[1], inputs.chunk(ranks)[rank], labels.chunk(ranks)[rank])
            if rank == 0 and (step + 1) % 5 == 0:
                print(f"step {step + 1:3d}/{STEPS}  loss {loss:.4f}", flush=True)

        for (name, expected), weight in zip(whole.named_parameters(), sharded.parameters(), strict=True):
            check_weight(name, weight, expected)
        if rank == 0:
            print(
                f"{args.backend}, {ranks} ranks: the sharded weights equal the whole ones after {STEPS} steps",
                flush=True,
            )
    finally:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
