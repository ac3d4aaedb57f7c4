"""rma.py WHAT [EACH]: a rank with windows, among ranks on several hosts.

operate  every operation, and EACH contended updates by each rank; says how it reaches the others
lose     calls of every kind to the last rank, whose host is cut off; prints what they raised, and how long each took
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from pycomms import PeerFailure, rma

LARGE = 3_000_000  # elements


def data(win: rma.Window, rank: int, world: int) -> None:
    right, left = (rank + 1) % world, (rank - 1) % world
    for count in (1, 1000, LARGE):
        win.put(torch.full((count,), float(rank + count)), right, 5, signal=1)
        win.wait_signal(left, 1)
        assert torch.equal(win.local[5 : 5 + count], torch.full((count,), float(left + count)))
        got = torch.empty(count)
        win.fence()
        win.get(got, right, 5)
        assert torch.equal(got, torch.full((count,), float(rank + count)))
        win.fence()
    # Every third element, from every second of a tensor; and all at once.
    place = win.local[: 3 * 500 : 3]
    source = torch.arange(1000, dtype=torch.float32)[::2]
    win.put(source, right, place)
    win.fence()
    assert torch.equal(place, source)
    win.fence()  # all have looked
    works = [win.put(torch.full((100,), float(i)), right, 100 * i, async_op=True) for i in range(50)]
    for work in works:
        assert work is not None
        work.wait()
    win.fence()
    assert torch.equal(win.local[:5000], torch.arange(50.0).repeat_interleave(100))


def updates(rank: int, world: int, each: int) -> None:
    with rma.Window(torch.zeros(4, dtype=torch.int64)) as win:
        for _ in range(each):
            win.fetch_add(1, 0)
            seen = int(win.get_accumulate(torch.zeros(1, dtype=torch.int64), world - 1, 1, op="fetch"))
            while (old := win.compare_swap(seen, seen + 1, world - 1, 1)) != seen:
                seen = old
        for _ in range(20):
            with win.lock(1):
                value = torch.empty(1, dtype=torch.int64)
                win.get(value, 1, 2)
                win.put(value + 1, 1, 2)
        win.accumulate(torch.tensor([rank]), 0, 3, op="max")
        win.fence()
        if rank == 0:
            assert win.local[0] == world * each
            assert win.local[3] == world - 1
        if rank == world - 1:
            assert win.local[1] == world * each
        if rank == 1:
            assert win.local[2] == world * 20


def operate(rank: int, world: int, each: str) -> None:
    with rma.Window(torch.zeros(LARGE + 5)) as win:
        data(win, rank, world)
        print("reaches " + " ".join(win.attr(peer).reach for peer in range(world)), flush=True)
    updates(rank, world, int(each))
    dist.destroy_process_group()


def lose(rank: int, world: int) -> None:
    win = rma.Window(torch.zeros(1000, dtype=torch.int64))
    last, neighbour = world - 1, 1 - rank
    source = torch.ones(1000, dtype=torch.int64)
    if rank != last:
        win.put(source, last)
        win.flush()
    print("ready", flush=True)
    if rank == last:
        win.wait_signal(0)  # in vain
    calls: dict[str, Callable[[], Any]] = {
        "wait_signal": lambda: win.wait_signal(last),
        "put": lambda: (win.put(source, last), win.flush(last)),
        "get": lambda: win.get(source, last),
        "lock": lambda: win.lock(last),
        "fetch_add": lambda: win.fetch_add(1, last),
    }
    for name, call in calls.items():
        begun = time.monotonic()
        try:
            call()
        except PeerFailure as err:
            print(f"{name}: PeerFailure of {err.ranks} after {time.monotonic() - begun:.2f} s", flush=True)
    win.put(torch.full((10,), rank + 7), neighbour, 20, signal=2)
    win.wait_signal(neighbour, 2)
    assert win.local[20:30].tolist() == [neighbour + 7] * 10
    print("the others go on", flush=True)


def main(what: str, *more: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("nccl2")
    rank, world = dist.get_rank(), dist.get_world_size()
    if what == "operate":
        operate(rank, world, *more)
    else:
        lose(rank, world)


if __name__ == "__main__":
    main(*sys.argv[1:])
