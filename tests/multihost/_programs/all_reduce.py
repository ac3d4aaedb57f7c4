"""all_reduce.py BACKEND: what a launcher started joins a group, adds up the ranks, and each prints the sum."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import torch
import torch.distributed as dist

ELEMENTS = 100_000


def main(backend: str) -> None:
    torch.set_num_threads(1)
    if backend == "pycomms":
        import_module(backend)  # torch before 2.14 does not find it by its name
    dist.init_process_group(backend)
    rank, world = dist.get_rank(), dist.get_world_size()
    for _ in range(3):
        tensor = torch.full((ELEMENTS,), float(rank + 1))
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.full((ELEMENTS,), world * (world + 1) / 2))
    print(
        f"rank {rank} of {world}, {os.environ['LOCAL_RANK']} on {os.uname().nodename}: {tensor[0].item()}", flush=True
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
