"""The worker of examples/demo.py: trains the same model twice on the same ranks, over nccl2 and over gloo.

    torchrun --standalone --nproc-per-node 4 examples/compare_backends.py --out comparison.json

The two take turns, epoch by epoch, and swap who goes first: whatever else the machine does hits both alike. Afterwards
the all_reduce of the gradients is timed alone, in turns too: in training much of its time is waiting for slower ranks.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

import pycomms  # noqa: F401  # the import registers nccl2
from train_ddp import Training

TIMEOUT = timedelta(seconds=60)
BLOCKS, BLOCK = 20, 5  # turns of each backend, all_reduces in a turn


def time_alone(groups: Mapping[str, dist.ProcessGroup], elements: int) -> dict[str, float]:
    """Median seconds of an all_reduce of so many float64, by backend; mean over the ranks."""
    data = torch.zeros(elements, dtype=torch.float64)
    seconds: dict[str, list[float]] = {name: [] for name in groups}
    for _ in range(BLOCKS):
        for name, group in groups.items():
            dist.all_reduce(data, group=group)  # the ranks meet; not counted
            for _ in range(BLOCK):
                begin = time.perf_counter()
                dist.all_reduce(data, group=group)
                seconds[name].append(time.perf_counter() - begin)
    medians = torch.tensor([statistics.median(seconds[name]) for name in groups], dtype=torch.float64)
    dist.all_reduce(medians)
    return dict(zip(groups, (medians / dist.get_world_size()).tolist(), strict=True))


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
        groups = {"nccl2": ours, "gloo": gloo}
        trainings = {name: Training(group, epochs=args.epochs, measure=True) for name, group in groups.items()}
        for number in range(args.epochs):
            turn = list(trainings) if number % 2 == 0 else list(reversed(trainings))
            losses = {name: trainings[name].epoch(number) for name in turn}
            if dist.get_rank() == 0 and not args.quiet:
                shown = "  ".join(f"{name} {losses[name]:.6f}" for name in trainings)
                print(f"epoch {number + 1:3d}/{args.epochs}  loss: {shown}", flush=True)
        alone = time_alone(groups, trainings["nccl2"].parameters())
        results = [
            {**asdict(training.summary(name, args.epochs)), "seconds_alone": alone[name]}
            for name, training in trainings.items()
        ]
        if dist.get_rank() == 0:
            args.out.write_text(json.dumps(results))
    finally:
        dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
