"""What is left of a group: nothing. Counted before and after many lives and deaths, on the ranks and in /dev/shm."""

from __future__ import annotations

import random
import signal
import threading
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from ._harness import Ranks, context
from ._holdings import Holdings, shared_memory

_WARM_UP = 5


def check_lives(rank: int, world: int, cycles: int) -> tuple[Holdings, Holdings]:
    """Groups made, used in every way that makes threads or memory, and destroyed."""
    before = None
    for cycle in range(cycles + _WARM_UP):
        if cycle == _WARM_UP:
            before = Holdings.now()
        context().init(f"cycle {cycle}")
        first = dist.new_group([0])
        dist.all_reduce(torch.ones(10))
        work = dist.all_reduce(torch.ones(100_000), async_op=True)
        if isinstance(first, dist.ProcessGroup):
            dist.all_reduce(torch.ones(1), group=first)
        assert work is not None
        work.wait()
        del work, first
        dist.destroy_process_group()
    assert before is not None
    return before, Holdings.now()


@pytest.mark.parametrize("world, cycles", [(2, 200), (4, 20)])
def test_nothing_is_left_of_groups_that_ended_well(ranks: Ranks, world: int, cycles: int) -> None:
    shared_before = shared_memory()
    for before, after in ranks.run(check_lives, cycles, world=world, init=False, fresh=True, timeout=110.0):
        assert after.descriptors <= before.descriptors
        assert after.threads <= before.threads
        assert after.mappings <= before.mappings
    assert shared_memory() <= shared_before


def check_until_killed(rank: int, world: int) -> tuple[Holdings, Holdings]:
    context().init("warm-up")
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
    before = Holdings.now()
    context().init()
    tensor = torch.ones(1 << 20)
    dist.all_reduce(tensor)
    context().tell("running")
    try:
        while True:
            dist.all_reduce(tensor)
    except dist.DistBackendError:
        dist.destroy_process_group()
    return before, Holdings.now()


@pytest.mark.nccl2_only("survivors of a kill wait for gloo's timeout")
def test_nothing_is_left_after_kills(ranks: Ranks, long: bool) -> None:
    shared_before = shared_memory()
    dice = random.Random(3)
    world = 3
    for _ in range(20 if long else 6):
        victim = dice.randrange(world)
        with ranks.start(check_until_killed, world=world, init=False, fresh=True, timeout=30.0) as run:
            for rank in range(world):
                run.told(rank)
            run.signal(victim, signal.SIGKILL)
            answers = run.finish(died={victim})
        for rank, answer in enumerate(answers):
            if rank != victim:
                before, after = answer
                assert after.descriptors <= before.descriptors, f"rank {rank}"
                assert after.mappings <= before.mappings, f"rank {rank}"
                assert after.threads <= before.threads, f"rank {rank}"
        assert shared_memory() <= shared_before


def check_import_is_quiet(rank: int, world: int) -> tuple[int, int]:
    """Importing starts no thread and opens nothing."""
    return threading.active_count(), len(list(Path("/proc/self/task").iterdir()))


def test_a_worker_begins_with_one_thread(ranks: Ranks) -> None:
    assert ranks.run(check_import_is_quiet, world=1, init=False, fresh=True) == [(1, 1)]
