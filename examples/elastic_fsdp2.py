"""FSDP2 that loses workers and goes on: two replicas of a sharded model, on scikit-learn's handwritten digits.

    pycomms run --nproc-per-node 4 examples/elastic_fsdp2.py --kill 1@100

Workers 0 and 1 share one model, 2 and 3 another. Worker 1 kills itself in the middle of step 100: its replica stops,
and the other one does the step again and trains on. When the agent has started a process in its place, that and worker
0 fetch their shards from workers 2 and 3. At the end worker 0 prints what has happened.
"""

import argparse
import os
import signal
import sys

import torch
from elastic import death
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy

from pycomms import ft
from train_ddp import load_data, make_model


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--kill", type=death, action="append", default=[], metavar="SLOT@STEP")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train, _ = load_data()
    replica = ft.Replica(shards=2)
    model = make_model()
    for layer in model.children():
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=replica.mesh)
    fully_shard(model, mesh=replica.mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = ft.ElasticSampler(train, 16, seed=3)
    session = ft.Session(model, optimizer, sampler=sampler, replica=replica)
    first = os.environ.get("PYCOMMS_INCARNATION", "0") == "0"
    for step in session.steps(until=arguments.steps):
        with step:
            images, labels = next(step.batches)
            loss = cross_entropy(model(images), labels)
            loss.backward()
            if first and (session.slot, step.number) in arguments.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            step.optimizer_step()
    sampler.check()
    if session.rank == 0:  # not slot 0: its new process may have come too late
        for one in session.recoveries[1:]:
            print(f"behind step {one.step}: {one.reason}; {one.world} members ({one.plan})")
        print(f"{arguments.steps} steps, loss {loss.item():.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
