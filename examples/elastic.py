"""A training that loses workers and goes on, on scikit-learn's handwritten digits.

    pycomms run --nproc-per-node 4 examples/elastic.py --kill 1@100

Worker 1 kills itself in the middle of step 100. The other three make a group without it and do the step again; the
agent starts another process in its place, which fetches the state from their memory and trains along. Nothing in the
loop is about failures. At the end one of them prints what has happened, and the accuracy on images that were held back.
"""

import argparse
import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

from pycomms import ft
from train_ddp import load_data, make_model


def death(text: str) -> tuple[int, int]:
    slot, _, step = text.partition("@")
    return int(slot), int(step)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16, help="images per worker and step")
    parser.add_argument("--kill", type=death, action="append", default=[], metavar="SLOT@STEP")
    parser.add_argument("--ddp", action="store_true", help="reduce gradients while the backward pass goes on")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--out", type=Path, help="a file for what --json prints, beside the lines for people")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train, test = load_data()
    model = ft.DistributedDataParallel(make_model()) if arguments.ddp else make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    sampler = ft.ElasticSampler(train, arguments.batch, seed=3)
    session = ft.Session(model, optimizer, sampler=sampler, recovery_deadline=timedelta(seconds=10))
    first = os.environ.get("PYCOMMS_INCARNATION", "0") == "0"
    for step in session.steps(until=arguments.steps):
        with step:
            images, labels = next(step.batches)
            loss = cross_entropy(model(images), labels)
            loss.backward()
            if first and (session.slot, step.number) in arguments.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            step.optimizer_step()
        if step.reason and not arguments.json:
            done = "committed" if step.committed else "is done again"
            print(f"step {step.number} {done}: {step.reason}; {session.world} members", flush=True)
    sampler.check()
    if session.rank == 0:  # not slot 0: its new process may have come too late
        images, labels = test.tensors
        with torch.no_grad():
            accuracy = (model(images).argmax(dim=1) == labels).double().mean().item()
        told = [{**vars(one)} for one in session.recoveries]
        summary = json.dumps({"accuracy": accuracy, "epoch": sampler.epoch, "recoveries": told})
        if arguments.out:
            arguments.out.write_text(summary + "\n")
        if arguments.json:
            print(summary)
        else:
            for one in session.recoveries[1:]:
                took = f"{1e3 * one.seconds:.0f} ms"
                print(f"behind step {one.step}: {one.reason}; {one.world} members after {took} ({one.plan})")
            print(f"{arguments.steps} steps, {accuracy:.1%} of the images that were held back")
    return 0


if __name__ == "__main__":
    sys.exit(main())
