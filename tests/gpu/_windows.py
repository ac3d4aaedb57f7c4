"""Windows over memory of a GPU, as far as NCCL has them. Runs on a rank only."""

from __future__ import annotations

import torch

from pycomms import rma
from tests.cuda._group import sum_works


def put_round_the_ring(rank: int, world: int) -> None:
    right, left = (rank + 1) % world, (rank - 1) % world
    memory = rma.empty(1024, device="cuda")
    memory.fill_(-1)
    win = rma.Window(memory)
    for turn, is_async in enumerate((False, True)):
        source = torch.full((16,), float(10 * turn + rank), device="cuda")
        work = win.put(source, right, 64 * turn, signal=0, async_op=is_async)
        if work is not None:
            work.wait()
        win.wait_signal(left)
        assert win.local[64 * turn : 64 * turn + 16].tolist() == [10.0 * turn + left] * 16
        assert win.local[64 * turn + 16].item() == -1
    win.close()
    sum_works(world)
