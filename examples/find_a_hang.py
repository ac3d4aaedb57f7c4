"""A job on plain gloo that hangs, and the command that says why. Needs torch 2.14.

    python examples/find_a_hang.py

Three ranks train; rank 2 leaves an all_reduce out at step 5, as a branch that depends on the rank does. The other two
wait for it. The one line about pycomms in the job is `flight_recorder.attach()`. What the ranks have written to shared
memory is read while the job hangs, as you would from another terminal: by `pycomms fr analyze`.
"""

import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist

from pycomms import flight_recorder

RANKS, LOST = 3, 2
WAIT_S = 60.0
FAULT = 1
"""Exit code of the command: a fault, and its root cause."""


def train(rank: int, folder: str, parent: Connection) -> None:
    flight_recorder.attach()
    where = f"file://{folder}/store"
    dist.init_process_group("gloo", where, timedelta(seconds=WAIT_S), world_size=RANKS, rank=rank)
    weight = torch.zeros(16)
    for step in range(10):
        gradient = torch.full((16,), float(rank + step))
        if step == 5:
            parent.send("at step 5")
        if rank == LOST and step == 5:
            parent.recv()  # it has left the operation out, and is somewhere else
        else:
            dist.all_reduce(gradient)
        weight -= 0.1 * gradient / RANKS


@contextmanager
def job(folder: str) -> Iterator[list[Connection]]:
    """Its ranks, which are killed at the end: two of them wait for what will not come."""
    os.environ["PYCOMMS_FR_DIR"] = f"{folder}/records"
    context = multiprocessing.get_context("spawn")
    processes, connections = [], []
    try:
        for rank in range(RANKS):
            ours, theirs = context.Pipe()
            process = context.Process(target=train, args=(rank, folder, theirs), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            connections.append(ours)
        yield connections
    finally:
        for process in processes:
            process.kill()
            process.join(WAIT_S)


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, job(folder) as ranks:
        for rank, connection in enumerate(ranks):
            if not connection.poll(WAIT_S):
                raise TimeoutError(f"rank {rank} did not come to step 5 within {WAIT_S:g} s")
            print(f"rank {rank} is {connection.recv()}", flush=True)
        # Of a job that runs only you can say how long is too long: a second here.
        command = [sys.executable, "-m", "pycomms", "fr", "analyze", "--patience", "1", f"{folder}/records"]
        print("$ pycomms", *command[3:], flush=True)
        until = time.monotonic() + WAIT_S
        while (done := run(command)).returncode != FAULT:
            if time.monotonic() > until:
                raise TimeoutError(f"no fault was found within {WAIT_S:g} s: {done.stdout}{done.stderr}")
        print(done.stdout, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
