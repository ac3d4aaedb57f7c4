"""DiLoCo that loses a worker and goes on: rounds without communication, on scikit-learn's handwritten digits.

    pycomms run --nproc-per-node 4 examples/elastic_diloco.py --kill 1@10

A round is twenty steps of each worker by itself, and then one outer step, which all take or none does. Worker 1 kills
itself in the middle of round 10: the others go back to where the round began and do it again without it. At the end
worker 0 prints what has happened, and the accuracy on images that were held back.
"""

import argparse
import os
import signal
import sys
from datetime import timedelta

import torch
from elastic import death
from torch.nn.functional import cross_entropy

from pycomms import ft
from train_ddp import load_data, make_model

EVERY = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--kill", type=death, action="append", default=[], metavar="SLOT@ROUND")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train, test = load_data()
    model = make_model()
    session = ft.Session(
        model,
        torch.optim.AdamW(model.parameters(), lr=0.003),
        sampler=ft.ElasticSampler(train, 16, seed=3),
        outer=ft.DiLoCo(every=EVERY, lr=0.7),
        recovery_deadline=timedelta(seconds=10),
    )
    first = os.environ.get("PYCOMMS_INCARNATION", "0") == "0"
    for step in session.steps(until=arguments.rounds):
        with step:
            for images, labels in step.batches:
                loss = cross_entropy(model(images), labels)
                loss.backward()
                step.inner_step()
            if first and (session.slot, step.number) in arguments.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            step.optimizer_step()
        if step.reason:
            done = "committed" if step.committed else "is done again"
            print(f"round {step.number} {done}: {step.reason}; {session.world} members", flush=True)
    if session.rank == 0:  # not slot 0: its new process may have come too late
        images, labels = test.tensors
        with torch.no_grad():
            accuracy = (model(images).argmax(dim=1) == labels).double().mean().item()
        print(f"{arguments.rounds} rounds of {EVERY} steps, {accuracy:.1%} of the images that were held back")
    return 0


if __name__ == "__main__":
    sys.exit(main())
