"""Checkpoints of a model that goes on training: the other ranks take them out of its memory.

    torchrun --standalone --nproc-per-node 3 examples/rma_checkpoint_pull.py [--steps 200]

The weights of rank 0 lie in a window. It trains, and never sends them: it only holds the lock of its window for as
long as the optimizer changes them. The others fetch all weights under a shared lock, as a rank that joins would,
several times while the training goes on. What they get must be the weights of one single step, to the bit.
"""

import argparse
import hashlib
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pycomms import rma

OWNER = 0
PULLS = 5


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 128), nn.Tanh(), nn.Linear(128, 32))


def weights_of(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def move_into(flat: Tensor, model: nn.Module) -> None:
    """The parameters become views of `flat`."""
    begin = 0
    for parameter in model.parameters():
        place = flat[begin : begin + parameter.numel()].view_as(parameter)
        place.copy_(parameter.detach())
        parameter.data = place
        begin += parameter.numel()


def digest(flat: Tensor) -> str:
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def train(win: rma.Window, steps: int) -> list[str]:
    """Returns the digest of the window after each step."""
    model = network()
    move_into(win.local, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    digests = []
    for step in range(1, steps + 1):
        inputs = torch.randn(32, 32)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), inputs.roll(1, dims=1)).backward()
        with win.lock(OWNER):
            optimizer.step()
            win.local[-1] = step  # behind the weights
        digests.append(digest(win.local))
        for rank in range(1, win.size):
            win.signal(rank)
    return digests


def pull(win: rma.Window, steps: int) -> dict[int, str]:
    """Returns the digests of what was fetched, by step."""
    copy = torch.empty(win.attr(OWNER).numel)
    digests = {}
    for _ in range(PULLS):
        win.wait_signal(OWNER, count=steps // PULLS)  # the training has come a bit further
        with win.lock(OWNER, shared=True):
            win.get(copy, OWNER)
        digests[int(copy[-1])] = digest(copy)
    return digests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help=f"at least {PULLS}, one before each pull (default: 200)")
    args = parser.parse_args()
    if args.steps < PULLS:
        parser.error(f"--steps is {args.steps}, expected at least {PULLS}")
    torch.set_num_threads(1)
    dist.init_process_group("nccl2", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    if dist.get_world_size() < 2:
        raise SystemExit("at least 2 ranks are needed: one that trains and one that pulls")

    held = weights_of(network()) + 1 if rank == OWNER else 0
    with rma.Window(rma.empty(held), name="model") as win:
        steps: list[list[str] | None] = [train(win, args.steps) if rank == OWNER else None]
        pulled = pull(win, args.steps) if rank != OWNER else {}
        dist.broadcast_object_list(steps, src=OWNER)
        digests = steps[0]
        assert digests is not None
        for step, found in pulled.items():
            assert found == digests[step - 1], f"rank {rank} has fetched weights of no step at all: step {step}"
        if rank == 1:
            print(f"rank {rank} has the weights of steps {sorted(pulled)} of {args.steps}, to the bit", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
