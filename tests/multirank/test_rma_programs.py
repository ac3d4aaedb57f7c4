"""Whole programs on windows: what they compute is compared with what one process computes alone."""

from __future__ import annotations

import random
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._harness import Ranks, context

pytestmark = pytest.mark.nccl2_only("gloo has no windows")

_LIMIT_S = 60.0

# --- halo exchange


def stencil(field: torch.Tensor) -> torch.Tensor:
    """One step of a diffusion with a little of everything: all eight neighbours count, so corners have to be right."""
    middle = field[1:-1, 1:-1]
    sides = field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:]
    corners = field[:-2, :-2] + field[:-2, 2:] + field[2:, :-2] + field[2:, 2:]
    return middle * 0.5 + sides * 0.1 + corners * 0.025


def alone(rows: int, columns: int, steps: int) -> torch.Tensor:
    """On a torus, by one process."""
    field = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))
    for _ in range(steps):
        padded = torch.cat([field[-1:], field, field[:1]])
        field = stencil(torch.cat([padded[:, -1:], padded, padded[:, :1]], 1))
    return field


def check_halo(rank: int, world: int, down: int, across: int, steps: int) -> None:
    """Each rank has a block with a rim of one. Its edges go into the rims of its neighbours: rows first, then columns
    with their ends, which brings the corners along.
    """
    rows, columns = 6, 7
    row, column = divmod(rank, across)
    north, south = ((row - 1) % down) * across + column, ((row + 1) % down) * across + column
    west, east = row * across + (column - 1) % across, row * across + (column + 1) % across
    whole = torch.randn(down * rows, across * columns, generator=torch.Generator().manual_seed(1))
    with rma.Window(torch.zeros(rows + 2, columns + 2)) as win:
        field = win.local
        field[1:-1, 1:-1] = whole[row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]
        for _ in range(steps):
            win.put(field[1, 1:-1], north, field[-1, 1:-1], signal=0)
            win.put(field[-2, 1:-1], south, field[0, 1:-1], signal=1)
            win.wait_signal(south, 0)
            win.wait_signal(north, 1)
            win.put(field[:, 1], west, field[:, -1], signal=2)
            win.put(field[:, -2], east, field[:, 0], signal=3)
            win.wait_signal(east, 2)
            win.wait_signal(west, 3)
            after = stencil(field)
            for neighbour in (north, south, west, east):  # its rim has been read
                win.signal(neighbour, 4)
            neighbours = Counter((north, south, west, east))
            for neighbour, times in neighbours.items():
                win.wait_signal(neighbour, 4, times)
            field[1:-1, 1:-1] = after
        expected = alone(down * rows, across * columns, steps)
        mine = expected[row * rows : (row + 1) * rows, column * columns : (column + 1) * columns]
        assert torch.equal(field[1:-1, 1:-1], mine)


@pytest.mark.parametrize(("down", "across"), [(1, 1), (1, 2), (2, 2), (2, 3), (4, 2)])
def test_halo_exchange_on_a_grid(ranks: Ranks, down: int, across: int) -> None:
    ranks.run(check_halo, down, across, 12, world=down * across)


# --- hash table

_FREE = 0


class Table:
    """Open addressing over the windows of all ranks: keys are claimed with compare_swap, counted with fetch_add."""

    def __init__(self, win: rma.Window, slots: int) -> None:
        self._win = win
        self._slots = slots  # of each rank

    def count(self, key: int) -> None:
        place = key * 0x9E3779B1 % (self._slots * self._win.size)
        while True:
            rank, slot = divmod(place, self._slots)
            seen = self._win.compare_swap(_FREE, key, rank, 2 * slot)
            if seen in (_FREE, key):
                self._win.fetch_add(1, rank, 2 * slot + 1)
                return
            place = (place + 1) % (self._slots * self._win.size)


def keys_of(rank: int, count: int) -> list[int]:
    """Few, and the same on all ranks: they meet all the time."""
    dice = random.Random(rank)
    return [dice.randrange(1, 400) for _ in range(count)]


def check_hash_table(rank: int, world: int, count: int) -> None:
    slots = 600 // world
    with rma.Window(torch.zeros(2 * slots, dtype=torch.int64)) as win:
        table = Table(win, slots)
        for key in keys_of(rank, count):
            table.count(key)
        win.fence()
        if rank == 0:
            found: Counter[int] = Counter()
            for peer in range(world):
                part = torch.zeros(2 * slots, dtype=torch.int64)
                win.get(part, peer)
                for key, times in part.view(-1, 2).tolist():
                    assert key not in found or key == _FREE  # claimed once
                    found[key] += times
            expected = sum((Counter(keys_of(peer, count)) for peer in range(world)), Counter())
            del found[_FREE]
            assert found == expected


@pytest.mark.parametrize("world", [2, 4])
def test_a_hash_table_that_all_ranks_hammer_loses_nothing(ranks: Ranks, long: bool, world: int) -> None:
    """At least two operations a key."""
    operations = 1_000_000 if long else 100_000
    ranks.run(check_hash_table, operations // 2 // world, world=world, timeout=110.0)


# --- work queue


def check_work_queue(rank: int, world: int, items: int) -> list[int]:
    with rma.Window(torch.zeros(1, dtype=torch.int64)) as win:
        taken = []
        while (item := win.fetch_add(1, 0)) < items:
            taken.append(item)
        win.fence()
        assert rank != 0 or win.local[0] == items + world
        return taken


@pytest.mark.parametrize("world", [2, 4, 8])
def test_each_item_of_a_work_queue_is_taken_once(ranks: Ranks, world: int) -> None:
    taken = ranks.run(check_work_queue, 5000, world=world)
    assert sorted(item for one in taken for item in one) == list(range(5000))
    assert all(one == sorted(one) for one in taken)


# --- passive target


def check_passive_target(rank: int, world: int) -> int:
    """Rank 0 computes, and calls nothing of ours between two moments that the others do not wait for. They tell it by
    its own memory when they are through.
    """
    size, rounds = 1000, 30
    with rma.Window(torch.zeros(2 + world * size, dtype=torch.int64)) as win:
        dist.barrier()
        if rank == 0:
            done, numbers, spent = win.local[:1], torch.randn(64, 64), 0
            deadline = time.monotonic() + _LIMIT_S
            while int(done) < world - 1 and time.monotonic() < deadline:
                numbers = torch.tanh(numbers @ numbers)
                spent += 1
            assert int(done) == world - 1
            assert int(win.local[1]) == (world - 1) * rounds
            for peer in range(1, world):
                assert win.local[2 + peer * size : 2 + (peer + 1) * size].eq(peer * 1000 + rounds).all()
            return spent
        place = win.local[2 + rank * size : 2 + (rank + 1) * size]
        for number in range(1, rounds + 1):
            mine = torch.full((size,), rank * 1000 + number)
            win.put(mine, 0, place)
            fetched = torch.zeros(size, dtype=torch.int64)
            win.get(fetched, 0, place)
            assert torch.equal(fetched, mine)
            with win.lock(0):
                win.fetch_add(1, 0, 1)
            win.flush(0)
        win.fetch_add(1, 0)
        return 0


@pytest.mark.parametrize("world", [2, 4])
def test_the_target_computes_and_never_calls(ranks: Ranks, world: int) -> None:
    ranks.run(check_passive_target, world=world)


# --- a live model is pulled by another rank


def train(model: torch.nn.Module, step: int) -> None:
    """All elements of a parameter are the same afterwards, and tell the step: others have been seen half written."""
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.full_like(parameter, float(step * 100 + number)))


def check_checkpoint(rank: int, world: int, pulls: int) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(50, 100), torch.nn.Linear(100, 7), torch.nn.LayerNorm(7))
    if rank == 0:
        train(model, 0)
    windows = [rma.Window(parameter) for parameter in model.parameters()]
    stop = rma.Window(torch.zeros(1, dtype=torch.int64))
    dist.barrier()
    if rank == 0:
        step, deadline = 0, time.monotonic() + _LIMIT_S
        while int(stop.local) < world - 1 and time.monotonic() < deadline:
            step += 1
            with windows[0].lock(0, timeout=timedelta(seconds=_LIMIT_S)):
                train(model, step)
        assert int(stop.local) == world - 1
    else:
        steps = []
        for _ in range(pulls):
            with windows[0].lock(0, shared=True, timeout=timedelta(seconds=_LIMIT_S)):
                works: list[Any] = [
                    win.get(parameter.data, 0, async_op=True)
                    for win, parameter in zip(windows, model.parameters(), strict=True)
                ]
                for work in works:
                    work.wait()
            values = [parameter.detach().unique().tolist() for parameter in model.parameters()]
            step = round(values[0][0] / 100)
            assert values == [[float(step * 100 + number)] for number in range(len(values))]
            steps.append(step)
        assert steps == sorted(steps)
        stop.fetch_add(1, 0)
    for win in [*windows, stop]:
        win.close()


def test_a_checkpoint_of_a_model_that_trains_on(ranks: Ranks) -> None:
    ranks.run(check_checkpoint, 30, world=3)


def check_whoever_comes_later(rank: int, world: int) -> None:
    """Rank 0 puts to one who has not asked for anything yet, and goes on."""
    with rma.Window(torch.zeros(3)) as win:
        if rank == 0:
            win.put(torch.ones(3), 1, signal=0)
            win.flush(1)
            context().signpost("put")
        else:
            context().await_signpost("put")
            assert win.local.tolist() == [1.0] * 3
            win.wait_signal(0)


def test_a_put_is_there_when_the_flush_has_returned(ranks: Ranks) -> None:
    ranks.run(check_whoever_comes_later, world=2)
