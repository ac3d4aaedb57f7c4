"""What the host pays to issue an all_reduce on a GPU tensor: µs of thread CPU time, ours and torch's backends.

    python -m tests.cuda.issue_cost [--json FILE]

A group of one rank on the emulated CUDA, backends in turns within one run. The engine and the device are the same for
all, so what the call costs in them is part of every figure.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BACKENDS = ("nccl2", "builtin_nccl2", "nccl")
_TURNS = 7
_CALLS = 400


def cost_us(issue: Callable[[], Any], calls: int) -> float:
    """CPU time of this thread for a call, and for the wait for its work if it gives one."""
    start = time.thread_time_ns()
    for _ in range(calls):
        work = issue()
        if work is not None:
            work.wait()
    return (time.thread_time_ns() - start) / calls / 1000


def _measure(backend: str, port: int, is_async: bool) -> float:
    importlib.import_module("tests.cuda._preload")  # before torch

    import torch
    import torch.distributed as dist

    import pycomms

    if backend == "builtin_nccl2":
        pycomms.builtin_nccl2(backend)
    dist.init_process_group(backend, init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    tensor = torch.ones(16, device="cuda")
    costs = []
    for _ in range(_TURNS):
        torch.cuda.synchronize()
        costs.append(cost_us(lambda: dist.all_reduce(tensor, async_op=is_async), _CALLS))
        torch.cuda.synchronize()
    dist.destroy_process_group()
    return statistics.median(costs)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.issue_cost")
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes of each backend, in turns")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures: dict[str, dict[str, list[float]]] = {}
    context = multiprocessing.get_context("spawn")
    for _ in range(options.rounds):
        for mode in ("sync", "async"):
            for backend in BACKENDS:
                with context.Pool(1) as pool:
                    cost = pool.apply(_measure, (backend, _free_port(), mode == "async"))
                figures.setdefault(mode, {}).setdefault(backend, []).append(cost)
    for mode, by_backend in figures.items():
        ours = statistics.median(by_backend[BACKENDS[0]])
        row = [f"{mode:5} nccl2 {ours:6.2f} us"]
        for backend in BACKENDS[1:]:
            theirs = statistics.median(by_backend[backend])
            row.append(f"{backend} {theirs:6.2f} us (ours is {ours / theirs:.2f} of it)")
        print("   ".join(row))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
