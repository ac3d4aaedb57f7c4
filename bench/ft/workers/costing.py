"""A worker of `bench.ft.cost`: the same training with a Session and without, in turns, in one process and one group."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

import torch.distributed as dist

from bench.ft.workers.work import Training, parser
from pycomms import ft


def plain(training: Training, group: dist.ProcessGroup) -> None:
    """What a program does that knows nothing of failures: reduce, divide, step."""
    training.optimizer.zero_grad(set_to_none=True)
    training.loss().backward()
    gradient = training.parameter.grad
    assert gradient is not None
    group.allreduce([gradient], dist.AllreduceOptions()).wait()
    gradient.div_(group.size())
    training.optimizer.step()


def protected(training: Training, steps: Iterator[ft.Step]) -> None:
    with next(steps) as step:
        training.loss().backward()
        step.optimizer_step()


def main(arguments: argparse.Namespace) -> None:
    training = Training(arguments)
    session = ft.Session(training.model, training.optimizer)
    steps = session.steps(until=1 << 40)
    times: dict[str, list[float]] = {"plain": [], "session": []}
    for block in range(arguments.blocks + 1):
        for name in times:
            began = time.perf_counter()
            for _ in range(arguments.steps):
                if name == "plain":
                    plain(training, session.group)
                else:
                    protected(training, steps)
            if block:  # the first warms up
                times[name].append((time.perf_counter() - began) / arguments.steps)
    if session.rank == 0:
        arguments.log.write_text(json.dumps(times))
    session.close()


if __name__ == "__main__":
    found = parser()
    found.add_argument("--blocks", type=int, required=True)
    found.add_argument("--steps", type=int, required=True, help="of a block")
    main(found.parse_args())
