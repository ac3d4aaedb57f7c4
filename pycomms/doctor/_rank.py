"""A rank of the self-check. Run as a child of the doctor; rank 1 ends by SIGKILL, in front of rank 0's eyes.

Arguments: rank, folder where the ranks meet, seconds that anything may take.
"""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from pycomms.doctor.child import begin, tell

RANKS = 2
_WARM_UP = 5


@dataclass(frozen=True, kw_only=True)
class Sum:
    """times: how often it is timed."""

    stage: str
    bytes: int
    times: int


SUMS = (
    Sum(stage="all_reduce of 8 B", bytes=8, times=300),
    Sum(stage="all_reduce of 1 MiB", bytes=1 << 20, times=50),
)


def main(arguments: Sequence[str]) -> None:
    rank, folder, seconds = int(arguments[0]), Path(arguments[1]), float(arguments[2])
    begin("import")
    import torch
    import torch.distributed as dist

    import pycomms
    from pycomms import _C

    torch.set_num_threads(1)
    pycomms.register()
    tell("import")

    begin("group")
    timeout = timedelta(seconds=seconds)
    began = time.perf_counter()
    dist.init_process_group(
        "nccl2",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=RANKS,
        timeout=timeout,
        pg_options=pycomms.Options(connect=pycomms.Connect.EAGER),
    )
    tell("group", ms=1e3 * (time.perf_counter() - began))

    for one in SUMS:
        begin(one.stage)
        tell(one.stage, bytes=one.bytes, median_us=1e6 * _all_reduce(rank, one))

    begin("death")
    handle = pycomms.regroup_handle()
    _meet()
    if rank == 1:
        tell("death", at_ns=time.monotonic_ns())
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        _meet()
    except pycomms.PeerFailure as failure:
        if failure.ranks != (1,):
            raise
    else:
        raise AssertionError("rank 1 was killed, and an operation with it succeeded")
    tell("death", at_ns=time.monotonic_ns())

    begin("regroup")
    if not _C.can_regroup:
        tell("regroup", needs="torch 2.14")
        return
    began = time.perf_counter()
    pycomms.regroup(uuid=1, handles=[handle], timeout=timeout).wait()
    alone = torch.full((2,), 3.0)
    dist.all_reduce(alone)
    if dist.get_world_size() != 1 or alone.tolist() != [3.0, 3.0]:
        raise AssertionError(f"alone in a group of {dist.get_world_size()}, the sum of 3 is {alone.tolist()}")
    tell("regroup", ms=1e3 * (time.perf_counter() - began))
    dist.destroy_process_group()


def _meet() -> None:
    """Not a barrier, which torch would have on a GPU where there is one."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.zeros(1))


def _all_reduce(rank: int, one: Sum) -> float:
    """The median in seconds. Raises AssertionError where a sum is wrong."""
    import torch
    import torch.distributed as dist

    count, rounds = one.bytes // 4, _WARM_UP + one.times
    mine = torch.arange(count, dtype=torch.float32) % 1000 + rank
    right = RANKS * (torch.arange(count, dtype=torch.float32) % 1000) + RANKS * (RANKS - 1) / 2
    samples = []
    for number in range(rounds):
        buffer = mine.clone()
        _meet()
        began = time.perf_counter()
        dist.all_reduce(buffer)
        samples.append(time.perf_counter() - began)
        if number in (0, rounds - 1) and not torch.equal(buffer, right):
            wrong = int((buffer != right).nonzero()[0])
            raise AssertionError(
                f"element {wrong} of the sum over {RANKS} ranks is {buffer[wrong]}, expected {right[wrong]}"
            )
    return statistics.median(samples[_WARM_UP:])
