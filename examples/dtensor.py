"""Tensor parallelism with DTensor on CPU tensors: split multiplications and layers, checked against the whole ones.

    torchrun --standalone --nproc-per-node 4 examples/dtensor.py --backend nccl2

On an even number of ranks the mesh has two dimensions, "data" and "model", each with its own communicators.
"""

import argparse
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def make_mesh(ranks: int) -> DeviceMesh:
    data = 2 if ranks % 2 == 0 and ranks > 2 else 1
    return init_device_mesh("cpu", (data, ranks // data), mesh_dim_names=("data", "model"))


def redistribute(mesh: DeviceMesh) -> None:
    """Every layout of a tensor gives back the same tensor: all_gather, reduce_scatter, all_to_all and all_reduce."""
    whole = torch.arange(13 * 11, dtype=torch.float64).reshape(13, 11)  # divides evenly by no mesh
    model = mesh["model"]
    rows = distribute_tensor(whole, model, [Shard(0)])
    columns = rows.redistribute(placements=[Shard(1)])
    check("rows to columns", columns.full_tensor(), whole)
    check("columns to replicas", columns.redistribute(placements=[Replicate()]).to_local(), whole)

    left = distribute_tensor(whole, model, [Shard(1)])
    right = distribute_tensor(whole.T.contiguous(), model, [Shard(0)])
    product = left @ right  # each rank has one term of the sum
    assert isinstance(product, DTensor)
    assert product.placements == (Partial(),) or model.size() == 1, product.placements
    check("sum of partial products", product.redistribute(placements=[Replicate()]).to_local(), whole @ whole.T)
    check(
        "scattered sum of partial products", product.redistribute(placements=[Shard(0)]).full_tensor(), whole @ whole.T
    )


def parallel_mlp(mesh: DeviceMesh) -> None:
    """A network whose layers are split by columns, then by rows, has the outputs and gradients of the whole one."""
    torch.manual_seed(1)
    whole = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 6)).double()
    split = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 6)).double()
    split.load_state_dict(whole.state_dict())
    parallelize_module(split, mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})

    inputs = torch.randn(8, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    expected, got = whole(inputs), split(inputs)
    check("output of the split network", got, expected)
    expected.square().sum().backward()
    got.square().sum().backward()
    for (name, a), b in zip(whole.named_parameters(), split.parameters(), strict=True):
        assert a.grad is not None
        assert isinstance(b.grad, DTensor)
        check(f"gradient of {name}", b.grad.full_tensor(), a.grad)


def check(what: str, got: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-9, msg=lambda m: f"{what}: {m}")
    if dist.get_rank() == 0:
        print(f"right: {what}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["nccl2", "gloo"], default="nccl2")
    args = parser.parse_args()
    if args.backend == "nccl2":
        import pycomms  # noqa: F401  # the import registers the backend
    torch.set_num_threads(1)
    dist.init_process_group(args.backend, timeout=timedelta(seconds=60))
    try:
        mesh = make_mesh(dist.get_world_size())
        redistribute(mesh)
        parallel_mlp(mesh)
        if dist.get_rank() == 0:
            print(f"{args.backend}, mesh of {mesh.size(0)} x {mesh.size(1)}: all results are right", flush=True)
    finally:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
