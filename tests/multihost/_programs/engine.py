"""engine.py WHAT: a rank of the nccl2 backend on CPU tensors, with ranks on several hosts.

matrix   operations of every kind against the reference; prints how many
train    a few steps of DDP; prints the last loss and a digest of the weights
lose     all_reduces until a host is lost; prints the ranks that the error names, and how long the last call took
outlive  the same, and goes on without the lost ones, in the opposite order; prints how long that took
join     the ranks of the first host are a group, and then one with all others; prints how long that took
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, PrefixStore, TCPStore
from torch.nn.parallel import DistributedDataParallel

import pycomms
from tests.multirank._ops import MOVING, OPERATIONS, REDUCING, Case
from tests.multirank.test_matrix import check_cases

_COUNTS = (77, 20_011, 400_003)
_MARK = "READY"


def _cases(world: int) -> Iterator[Case]:
    for number, (op, count) in enumerate(product(OPERATIONS, _COUNTS)):
        if op not in MOVING and op not in REDUCING:
            continue
        uneven = tuple((rank * 37) % 101 * (count // 100) for rank in range(world))
        case = Case(
            op=op,
            dtype=(torch.float32, torch.bfloat16, torch.float64)[number % 3],
            reduction=("SUM", "MAX", "AVG")[number % 3] if op in REDUCING else "",
            counts=uneven if op.endswith("_uneven") else (count,),
            root=number % world,
        )
        yield case
        yield replace(case, is_async=True)


def matrix(rank: int, world: int) -> None:
    tally = check_cases(rank, world, list(_cases(world)), strict=True)
    assert not tally.failures, tally.failures[:20]
    digests: list[Any] = [None] * world
    dist.all_gather_object(digests, tally.digests)
    assert all(theirs == digests[0] for theirs in digests)
    print(f"rank {rank}: {sum(tally.checked.values())} checked", flush=True)


def train(rank: int, world: int) -> None:
    torch.manual_seed(7)
    model = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 8))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, wanted = torch.randn(world, 16, 64), torch.randn(world, 16, 8)
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[rank]), wanted[rank])
        loss.backward()
        optimizer.step()
    weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()]).double()
    print(f"rank {rank}: {weights.sum().item():.12f} {weights.norm().item():.12f}", flush=True)


def lose(rank: int, world: int) -> None:
    tensor = torch.ones(1 << 20)
    dist.all_reduce(tensor)
    print(_MARK, flush=True)
    while True:
        started = time.monotonic()
        try:
            dist.all_reduce(tensor)
        except pycomms.PeerFailure as error:
            print(f"rank {rank}: {sorted(error.ranks)} after {time.monotonic() - started:.2f} s", flush=True)
            return


def _regroup(rank: int, what: str, handles: list[str]) -> None:
    started = time.monotonic()
    pycomms.regroup(uuid=1, handles=handles, timeout=timedelta(seconds=20)).wait()
    took = time.monotonic() - started
    size = len(handles)
    assert dist.get_world_size() == size
    for count in (1, 1000, 1 << 20):
        tensor = torch.full((count,), float(dist.get_rank() + 1))
        dist.all_reduce(tensor)
        assert bool(tensor.eq(size * (size + 1) / 2).all()), tensor
    print(f"rank {rank}: {what} as rank {dist.get_rank()} of {size} in {took:.3f} s", flush=True)


def outlive(rank: int, world: int) -> None:
    handles: list[Any] = [None] * world
    dist.all_gather_object(handles, pycomms.regroup_handle())
    tensor = torch.ones(1 << 20)
    dist.all_reduce(tensor)
    print(_MARK, flush=True)
    try:
        while True:
            dist.all_reduce(tensor)
    except pycomms.PeerFailure as error:
        lost = set(error.ranks)
    _regroup(rank, f"without {sorted(lost)}", [handles[r] for r in reversed(range(world)) if r not in lost])


def join() -> None:
    """By hand: whoever comes later is in no group of the others."""
    rank, world, per_host = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    meeting = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=rank == 0)
    if rank < per_host:
        store = PrefixStore("first", meeting)
        dist.init_process_group("nccl2", store=store, rank=rank, world_size=per_host)
        dist.all_reduce(torch.ones(1))
    else:
        options = pycomms.Options(connect=pycomms.Connect.LAZY)
        dist.init_process_group("nccl2", store=HashStore(), rank=0, world_size=1, pg_options=options)
    meeting.set(f"handle {rank}", pycomms.regroup_handle())
    _regroup(rank, "together", [meeting.get(f"handle {one}").decode() for one in range(world)])
    dist.barrier()


def main(what: str) -> None:
    torch.set_num_threads(1)
    if what == "join":
        join()
        return
    dist.init_process_group("nccl2", timeout=timedelta(seconds=60))
    play = {"matrix": matrix, "train": train, "lose": lose, "outlive": outlive}[what]
    play(dist.get_rank(), dist.get_world_size())
    if what not in ("lose", "outlive"):
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
