"""What is left of windows: nothing. Counted before and after many lives and deaths, on the ranks and in /dev/shm."""

from __future__ import annotations

import gc
import random
import signal
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import needed, refused
from ._harness import Ranks, context
from ._holdings import Holdings, shared_memory

pytestmark = pytest.mark.nccl2_only("gloo has no windows")

_WARM_UP = 5
_SHORT = timedelta(seconds=0.05)
_BYTES = 1 << 20
_PAGES_PER_WINDOW = 5.0  # far less than the memory of one
_PAGES = 1000  # that come and go


def use(win: rma.Window, rank: int, world: int) -> None:
    """In every way that makes threads or memory."""
    right, left = (rank + 1) % world, (rank - 1) % world
    works: list[Any] = [win.put(torch.zeros(_BYTES, dtype=torch.uint8), right, async_op=True)]
    works.append(win.get(torch.zeros(_BYTES, dtype=torch.uint8)[::2], right, async_op=True))
    works[0].wait()
    win.remote(right)[0] = 1
    with win.lock(right):
        win.signal(right)
    win.wait_signal(left)
    refused("ValueError", "", win.put, torch.zeros(1, dtype=torch.uint8), right, _BYTES)
    if rank == 0:
        refused("CollectiveTimeout", "", win.wait_signal, right, 7, timeout=_SHORT / 50)


def check_lives(rank: int, world: int, count: int) -> tuple[Holdings, Holdings]:
    before = None
    kept: list[torch.Tensor] = []
    for number in range(count + _WARM_UP):
        if number == _WARM_UP:
            before = Holdings.now()
        memory: Any = rma.empty(_BYTES, dtype=torch.uint8) if number % 2 else torch.zeros(_BYTES, dtype=torch.uint8)
        win = rma.Window(memory)
        use(win, rank, world)
        if number % 3 == 0:
            kept = [win.remote((rank + 1) % world)]  # for longer than its window
        if number % 5 == 0:
            needed(lambda: rma.Window(torch.zeros(2, 2)[:, 0] if rank == 0 else torch.zeros(2)))
        if number % 7 != 0:
            win.close()
        else:  # forgotten, and not closed: once all have used it
            dist.barrier()
        del win, memory
    assert before is not None
    assert kept
    kept.clear()
    gc.collect()
    dist.barrier()
    return before, Holdings.now()


@pytest.mark.parametrize(("world", "count"), [(2, 100), (3, 30)])
def test_nothing_is_left_of_windows(ranks: Ranks, world: int, count: int) -> None:
    shared_before = shared_memory()
    for before, after in ranks.run(check_lives, count, world=world, fresh=True, timeout=110.0):
        assert after.descriptors <= before.descriptors
        assert after.threads <= before.threads
        assert after.mappings <= before.mappings
        assert after.pages - before.pages <= _PAGES_PER_WINDOW * count + _PAGES
    assert shared_memory() <= shared_before


def check_until_killed(rank: int, world: int) -> tuple[Holdings, Holdings]:
    context().init("warm-up")
    with rma.Window(_BYTES) as win:
        use(win, rank, world)
    del win
    dist.destroy_process_group()
    before = Holdings.now()
    context().init()
    windows = [rma.Window(_BYTES), rma.Window(torch.zeros(_BYTES, dtype=torch.uint8))]
    context().tell("running")
    right = (rank + 1) % world

    def go_on() -> None:
        while True:
            for win in windows:
                use(win, rank, world)
                with win.lock(right, shared=True):
                    win.get(torch.zeros(_BYTES, dtype=torch.uint8), right)

    caught = needed(go_on)
    assert caught.kind == "PeerFailure", caught
    windows.clear()
    dist.destroy_process_group()
    return before, Holdings.now()


def test_nothing_is_left_after_kills(ranks: Ranks) -> None:
    shared_before = shared_memory()
    dice = random.Random(3)
    world = 2
    for _ in range(8):
        victim = dice.randrange(world)
        with ranks.start(check_until_killed, world=world, init=False, fresh=True, timeout=30.0) as run:
            for rank in range(world):
                run.told(rank)
            run.signal(victim, signal.SIGKILL)
            before, after = run.finish(died={victim})[1 - victim]
        assert after.descriptors <= before.descriptors
        assert after.mappings <= before.mappings
        assert after.threads <= before.threads
        assert shared_memory() <= shared_before
