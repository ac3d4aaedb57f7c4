"""A worker of `bench.ft`: a small training whose every commit is written down with its time."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn

from pycomms import ft


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument("--megabytes", type=float, default=1.0, help="of parameters")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    width = max(8, int((arguments.megabytes * 1e6 / 4) ** 0.5))
    model = nn.Linear(width, width, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    session = ft.Session(model, optimizer)
    log = os.open(arguments.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def say(what: str, *values: object) -> None:
        words = " ".join(map(str, (time.monotonic_ns(), session.slot, os.getpid(), what, *values)))
        os.write(log, f"{words}\n".encode())

    inputs = torch.randn(1, width)
    seen = 0
    for step in session.steps(until=arguments.steps):
        with step:
            until = time.perf_counter() + arguments.step_ms / 1e3
            while time.perf_counter() < until:  # what a step computes; it burns its core as a real one does
                pass
            model(inputs).sum().backward()
            step.optimizer_step()
        say("step", step.number, int(step.committed), step.world)
        for one in session.recoveries[seen:]:
            say("recovery", one.step, one.world, f"{one.seconds:.6f}", int(one.restored))
        seen = len(session.recoveries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
