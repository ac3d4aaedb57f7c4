"""One rank of a small gloo job that goes wrong in one way, with torch's own recorder on. Run by test_gloo.

Arguments: what goes wrong, and the folder for the dumps. No rank closes its groups: a stuck job does not either.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, _dump_fr_trace  # type: ignore[attr-defined]  # not in the stubs


def main(fault: str, folder: Path) -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = FileStore(str(folder / "store"), size)
    limit = timedelta(seconds=60)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
    ours = torch.ones(8)
    for _ in range(3):
        dist.all_reduce(ours)
        dist.broadcast(ours, 0)
    _await_marks(limit)
    last = size - 1
    survivors = [str(other) for other in range(size) if fault != "killed" or other != last]
    if fault == "killed" and rank == last:
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "mismatch" and rank == last:
        work = dist.broadcast(ours, last, async_op=True)
    elif fault != "missing" or rank != last:
        work = dist.all_reduce(ours, async_op=True)
    if fault in ("healthy", "killed"):
        assert work is not None
        with contextlib.suppress(RuntimeError) if fault == "killed" else contextlib.nullcontext():
            work.wait()  # of one that was killed the connection is lost
        _await_marks(limit)
    # All have issued what they are going to: only then does each write what it has.
    store.set(f"issued{rank}", "")
    store.wait([f"issued{other}" for other in survivors], limit)
    (folder / f"gloo_rank{rank}.pkl").write_bytes(_dump_fr_trace())
    store.set(f"written{rank}", "")
    store.wait([f"written{other}" for other in survivors], limit)
    os._exit(0)  # a stuck job has no orderly end


def _await_marks(limit: timedelta) -> None:
    """gloo's own thread marks the end of an operation a little after it has woken us."""
    deadline = time.monotonic() + limit.total_seconds()
    while not all(entry["retired"] for entry in pickle.loads(_dump_fr_trace())["entries"]):
        assert time.monotonic() < deadline, "gloo does not mark the end of its operations"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
