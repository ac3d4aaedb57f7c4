"""A parameter server that does not serve: rank 0 lends its memory, and the others train in it, each at its own pace.

    torchrun --standalone --nproc-per-node 4 examples/rma_parameter_server.py [--steps 300]

A worker gets the weights, computes a gradient on data of its own, and adds its step to the weights with `accumulate`:
no worker's step is lost, although nobody waits for anybody. `fetch_add` on a version gives every update its number,
and tells the worker how many others came between its look at the weights and its step. If they were too many it makes
a smaller one. Rank 0 sleeps until all have signalled that they are done.
"""

import argparse
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from pycomms import rma

FEATURES = 32
SERVER = 0
RATE = 0.02
FRESH = 8  # a step on weights that are older than so many versions counts less


def samples(true_weights: torch.Tensor, dice: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(16, FEATURES, generator=dice)
    return inputs, inputs @ true_weights


def work(weights: rma.Window, versions: rma.Window, steps: int, true_weights: torch.Tensor) -> int:
    """Returns by how many versions the worker was late at most."""
    dice = torch.Generator().manual_seed(1 + dist.get_rank())
    mine = torch.zeros(FEATURES)
    latest = 0
    for _ in range(steps):
        seen = versions.fetch_add(0, SERVER)
        weights.get(mine, SERVER)
        inputs, wanted = samples(true_weights, dice)
        gradient = 2 * inputs.T @ (inputs @ mine - wanted) / len(inputs)
        late = versions.fetch_add(1, SERVER) - seen
        weights.accumulate(-RATE * min(1.0, FRESH / (late + 1)) * gradient, SERVER)
        latest = max(latest, late)
    weights.flush(SERVER)
    versions.signal(SERVER)
    return latest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="of each worker")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("nccl2", timeout=timedelta(seconds=60))
    rank, workers = dist.get_rank(), dist.get_world_size() - 1
    if workers < 1:
        raise SystemExit("at least 2 ranks are needed: a server and a worker")
    true_weights = torch.randn(FEATURES, generator=torch.Generator().manual_seed(0))

    # A window has one dtype, so there are two of them. Workers have no memory in either.
    held = rma.empty(FEATURES if rank == SERVER else 0)
    version = rma.empty(1 if rank == SERVER else 0, dtype=torch.int64)
    with rma.Window(held, name="weights") as weights, rma.Window(version, name="versions") as versions:
        latest = 0
        if rank == SERVER:
            versions.wait_signal()  # of all workers
            error = float((held - true_weights).norm() / true_weights.norm())
            assert int(version) == workers * args.steps, f"{int(version)} updates instead of {workers * args.steps}"
            assert error < 1e-3, f"the weights are wrong by {error:.2g}"
        else:
            latest = work(weights, versions, args.steps, true_weights)
        late = torch.tensor(latest)
        dist.all_reduce(late, dist.ReduceOp.MAX)
        if rank == SERVER:
            made = f"{int(version)} updates by {workers} workers, at most {int(late)} versions late"
            print(f"{made}: the weights are right to {error:.1g}", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
