"""Updates of a window: every operation on every type against numpy's arithmetic, single elements, and what is never
lost when all ranks update the same ones.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import refused
from ._harness import Ranks

pytestmark = pytest.mark.nccl2_only("gloo has no windows")

_INTEGERS = (torch.int32, torch.int64, torch.uint32, torch.uint64)
_FLOATS = (torch.float32, torch.float64)
_OTHERS = (torch.int8, torch.int16, torch.uint8, torch.float16, torch.bfloat16, torch.bool, torch.complex64)

_Combine = Callable[[Any, Any], Any]
_BITS: dict[str, _Combine] = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}
_COMBINE: dict[str, _Combine] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "replace": lambda old, new: new,
    **_BITS,
}


def operands(dtype: torch.dtype, seed: int, size: int) -> torch.Tensor:
    """With the limits of the type among them, and for floats what is not finite."""
    dice = torch.Generator().manual_seed(seed)
    if dtype in _FLOATS:
        values = torch.randn(size, generator=dice, dtype=dtype) * 100
        values[:4] = torch.tensor([math.inf, -math.inf, math.nan, 1e-30])[torch.randperm(4, generator=dice)]
        return values
    values = torch.randint(0, 256, (size * dtype.itemsize,), generator=dice, dtype=torch.uint8).view(dtype)
    info = torch.iinfo(dtype)
    limits = np.array([info.min, info.max, 0, 1], dtype=values.numpy().dtype)
    values.numpy()[:4] = limits[torch.randperm(4, generator=dice).numpy()]
    return values


def check_every_operation(rank: int, world: int) -> None:
    right, size = (rank + 1) % world, 50
    for dtype in (*_INTEGERS, *_FLOATS):
        with rma.Window(torch.zeros(size, dtype=dtype)) as win:
            for op, combine in _COMBINE.items():
                if op in _BITS and dtype in _FLOATS:
                    refused("ValueError", op, win.accumulate, win.local, 0, op=op)
                    continue
                for seed in range(3):
                    before, change = operands(dtype, seed, size), operands(dtype, seed + 100, size)
                    with np.errstate(all="ignore"):
                        after = combine(before.numpy(), change.numpy())
                    win.put(before, right)
                    old = win.get_accumulate(change, right, op=op)
                    np.testing.assert_array_equal(old.numpy(), before.numpy(), str((dtype, op)))
                    np.testing.assert_array_equal(win.get_accumulate(change, right, op="fetch").numpy(), after)
                    win.put(before, right)
                    assert win.accumulate(change, right, op=op) is None
                    fetched = torch.zeros(size, dtype=dtype)
                    win.get(fetched, right)
                    np.testing.assert_array_equal(fetched.numpy(), after, str((dtype, op)))


@pytest.mark.parametrize("world", [1, 2])
def test_every_operation_on_every_type(ranks: Ranks, world: int) -> None:
    ranks.run(check_every_operation, world=world)


def check_other_types(rank: int, world: int) -> None:
    for dtype in _OTHERS:
        with rma.Window(torch.ones(4, dtype=dtype)) as win:
            ones = win.local.clone()
            refused("ValueError", "the window of rank 0", win.accumulate, ones, 0)
            refused("ValueError", "the window of rank 0", win.get_accumulate, ones, 0, op="fetch")
            refused("TypeError", "expected int32, int64", win.fetch_add, 1, 0)
            refused("TypeError", "expected int32, int64", win.swap, 1, 0)
            refused("TypeError", "expected int32, int64", win.compare_swap, 1, 1, 0)
            assert bool((win.local == 1).all())


def test_other_types_are_moved_and_not_updated(ranks: Ranks) -> None:
    ranks.run(check_other_types, world=1)


def check_places(rank: int, world: int) -> None:
    """Updates of views, with sources of any strides, and of nothing."""
    right = (rank + 1) % world
    with rma.Window(torch.zeros(6, 5, dtype=torch.int64)) as win:
        change = torch.arange(12).view(3, 4).t()[1:, :]  # 3 by 3
        old = win.get_accumulate(change, right, win.local[::2, 1:4])
        assert old.tolist() == [[0] * 3] * 3
        win.accumulate(torch.tensor(7), right, win.local[5, 4])
        win.accumulate(torch.ones(0, dtype=torch.int64), right, 30)
        assert win.get_accumulate(torch.ones(0, dtype=torch.int64), right).shape == (0,)
        win.fence()
        expected = torch.zeros(6, 5, dtype=torch.int64)
        expected[::2, 1:4] = change
        expected[5, 4] = 7
        assert torch.equal(win.local, expected)


@pytest.mark.parametrize("world", [1, 2])
def test_updates_of_views(ranks: Ranks, world: int) -> None:
    ranks.run(check_places, world=world)


def check_single_elements(rank: int, world: int) -> None:
    for dtype in _INTEGERS:
        info = torch.iinfo(dtype)
        lowest, highest = int(info.min), int(info.max)
        with rma.Window(torch.zeros(3, dtype=dtype)) as win:
            assert win.swap(highest, rank, 1) == 0
            assert win.fetch_add(1, rank, 1) == highest
            assert win.swap(lowest, rank, 1) == lowest  # it wrapped
            assert win.fetch_add(highest, rank, 1) == lowest
            assert win.compare_swap(0, 9, rank, 1) == (highest + lowest)
            assert win.local.tolist()[1] == (highest + lowest or 9)
            assert win.swap(np.int64(5), rank, 2) >= 0
            five: Any = torch.tensor(5)
            assert win.compare_swap(five, True, rank, 2) == 5
            assert win.local.tolist()[0] == 0
            assert win.local.tolist()[2] == 1
            for bad in (highest + 1, lowest - 1, 2**100):
                refused("ValueError", str(bad), win.swap, bad, rank)
                refused("ValueError", str(bad), win.fetch_add, bad, rank)
                refused("ValueError", str(bad), win.compare_swap, bad, 0, rank)
                refused("ValueError", str(bad), win.compare_swap, 0, bad, rank)
            for wrong in (1.5, "1", None, torch.ones(2)):
                refused("TypeError", "value is", win.swap, wrong, rank)
            assert win.local.tolist()[0] == 0


def check_single_floats(rank: int, world: int) -> None:
    for dtype in _FLOATS:
        with rma.Window(torch.zeros(2, dtype=dtype)) as win:
            highest = torch.finfo(dtype).max
            assert win.swap(highest, rank) == 0.0
            assert win.fetch_add(highest, rank) == highest
            assert win.swap(-0.0, rank) == math.inf
            assert struct.pack("d", win.compare_swap(0.0, 1.0, rank)) == struct.pack("d", -0.0)  # by bits: no match
            assert struct.pack("d", float(win.local[0])) == struct.pack("d", -0.0)
            win.compare_swap(-0.0, math.nan, rank)
            assert math.isnan(win.compare_swap(math.nan, 3, rank))
            assert win.swap(0.1, rank) == 3.0
            assert win.fetch_add(np.float32(1), rank) == float(torch.tensor(0.1, dtype=dtype))
            refused("TypeError", "value is", win.swap, "1", rank)
            assert win.local[1] == 0


def test_single_elements(ranks: Ranks) -> None:
    ranks.run(check_single_elements, world=1)
    ranks.run(check_single_floats, world=1)


def check_nothing_is_lost(rank: int, world: int, count: int) -> None:
    """All ranks, with two threads each, update the same elements of rank 0."""
    size, threads = 8, 2
    with rma.Window(torch.zeros(4, size, dtype=torch.int64)) as integers, rma.Window(torch.zeros(size)) as floats:
        sums, products, highest, bits = (integers.local[row] for row in range(4))
        tickets: list[list[int]] = [[] for _ in range(threads)]
        if rank == 0:
            products.fill_(1)
        dist.barrier()

        def update(thread: int) -> None:
            who = rank * threads + thread
            for number in range(count):
                tickets[thread].append(int(integers.get_accumulate(torch.ones(size, dtype=torch.int64), 0, sums)[3]))
                integers.accumulate(torch.full((size,), 3), 0, products, op="prod")
                integers.accumulate(torch.full((size,), number * 100 + who), 0, highest, op="max")
                integers.accumulate(torch.full((size,), 1 << (number + who) % 60), 0, bits, op="bxor")
                floats.accumulate(torch.full((size,), 0.5), 0)

        workers = [threading.Thread(target=update, args=(thread,)) for thread in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        integers.fence()
        floats.fence()
        everyone: list[Any] = [None] * world
        dist.all_gather_object(everyone, tickets)
        if rank == 0:
            total = count * threads * world
            assert sums.tolist() == [total] * size
            assert sorted(ticket for one in everyone for thread in one for ticket in thread) == list(range(total))
            product = pow(3, total, 1 << 64)
            assert products.tolist() == [product - (1 << 64) * (product >> 63)] * size
            assert highest.tolist() == [(count - 1) * 100 + world * threads - 1] * size
            expected = 0
            for who in range(world * threads):
                for number in range(count):
                    expected ^= 1 << (number + who) % 60
            assert bits.tolist() == [expected] * size
            assert floats.local.tolist() == [total / 2] * size


@pytest.mark.parametrize("world", [2, 4])
def test_nothing_is_lost_when_all_update_the_same(ranks: Ranks, long: bool, world: int) -> None:
    ranks.run(check_nothing_is_lost, 20_000 if long else 300, world=world, timeout=110.0)
