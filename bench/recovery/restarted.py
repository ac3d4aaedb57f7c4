"""A rank of a job that torchrun restarts as a whole: a training script that knows nothing of recovery.

It reports when it has verified its first all_reduce; the parent's line sends it into the loop in which one is killed.
Started by torchrun, with the socket and the job in the environment.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from bench.recovery.work import reduce_until_it_raises, touch, verified_all_reduce
from pycomms.bench.protocol import Hello, connect

_TIMEOUT = timedelta(seconds=20)


def main() -> None:
    ready = time.monotonic_ns()
    torch.set_num_threads(1)
    touch(int(os.environ["BENCH_RESIDENT"]))
    dist.init_process_group("gloo", timeout=_TIMEOUT)
    grouped = time.monotonic_ns()
    verified_all_reduce()
    verified = time.monotonic_ns()
    hello = Hello(
        contestant=os.environ["BENCH_JOB"], rank=dist.get_rank(), pid=os.getpid(), version=f"torch {torch.__version__}"
    )
    link = connect(os.environ["BENCH_SOCKET"], hello)
    link.send(json.dumps({"ready_ns": ready, "regrouped_ns": grouped, "verified_ns": verified}))
    link.receive(None)
    reduce_until_it_raises(link)


if __name__ == "__main__":
    main()
