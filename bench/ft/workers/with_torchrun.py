"""A rank of `torchrun --max-restarts`: it knows nothing of recovery, but writes a checkpoint behind each step."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

from bench.ft.workers.work import Log, Training, parser


def save(training: Training, committed: int, path: Path) -> None:
    beside = path.with_suffix(".new")
    torch.save({**training.state(), "committed": committed}, beside)
    beside.replace(path)


def main() -> None:
    arguments = parser().parse_args()
    training = Training(arguments)
    rank = int(os.environ["RANK"])
    log = Log(arguments.log, rank)
    log.say("joining", at=time.monotonic_ns())
    path = arguments.log.with_name("checkpoint")
    dist.init_process_group("gloo")
    committed = 0
    if path.exists():
        state = torch.load(path)
        training.load(state)
        committed = state["committed"]
        log.say("restored")
    world = dist.get_world_size()
    while True:
        training.optimizer.zero_grad()
        training.loss().backward()
        gradient = training.parameter.grad
        assert gradient is not None
        dist.all_reduce(gradient)
        gradient.div_(world)
        training.optimizer.step()
        committed += 1
        if rank == 0:
            save(training, committed, path)
        log.step(committed, True, world)


if __name__ == "__main__":
    main()
