"""The worker of examples/demo.py: trains the same model twice on the same ranks, over nccl2 and over gloo.

    torchrun --standalone --nproc-per-node 4 examples/compare_backends.py --out comparison.json

The two take turns, epoch by epoch, and swap who goes first: whatever else the machine does hits both alike.
"""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import pycomms  # noqa: F401  # the import registers nccl2
from train_ddp import Training

TIMEOUT = timedelta(seconds=60)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--out", type=Path, required=True, help="file for the two summaries, as JSON")
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("nccl2", timeout=TIMEOUT)
    try:
        ours = dist.group.WORLD
        gloo = dist.new_group(backend="gloo", timeout=TIMEOUT)
        assert isinstance(ours, dist.ProcessGroup)
        assert isinstance(gloo, dist.ProcessGroup)
        trainings = {
            "nccl2": Training(ours, epochs=args.epochs, measure=True),
            "gloo": Training(gloo, epochs=args.epochs, measure=True),
        }
        for number in range(args.epochs):
            turn = list(trainings) if number % 2 == 0 else list(reversed(trainings))
            losses = {name: trainings[name].epoch(number) for name in turn}
            if dist.get_rank() == 0 and not args.quiet:
                shown = "  ".join(f"{name} {losses[name]:.6f}" for name in trainings)
                print(f"epoch {number + 1:3d}/{args.epochs}  loss: {shown}", flush=True)
        summaries = [training.summary(name, args.epochs) for name, training in trainings.items()]
        if dist.get_rank() == 0:
            args.out.write_text(json.dumps([asdict(s) for s in summaries]))
    finally:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
