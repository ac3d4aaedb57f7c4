"""Signals and locks of windows: what is counted, who is waited for, who is kept out."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import catch, refused
from ._harness import Ranks, context

pytestmark = pytest.mark.nccl2_only("gloo has no windows")

_SHORT = timedelta(seconds=0.1)
_LIMIT_S = 20.0


def check_counting(rank: int, world: int) -> None:
    left, right = (rank - 1) % world, (rank + 1) % world
    with rma.Window(torch.zeros(1), slots=4) as win:
        assert win.slots == 4
        assert not win.test_signal(left, 3)
        dist.barrier()
        win.signal(right, 3)
        win.signal(right, 3, 5)
        win.signal(right, slot=3, value=0)
        win.signal(right, 1, -2)
        dist.barrier()
        assert [win.read_signal(left, slot) for slot in range(4)] == [0, -2, 0, 6]
        assert not win.test_signal(left, 3, 7)
        assert win.read_signal(left, 3) == 6  # nothing was taken
        win.wait_signal(left, 3, 4)
        assert win.test_signal(left, 3, 2)
        assert win.read_signal(left, 3) == 0
        dist.barrier()
        win.signal(right, 3, 9, op="set")
        win.signal(right, 3, 2, op="set")
        win.signal(right, 1, 3)
        win.wait_signal(left, 1)
        assert win.read_signal(left, 3) == 2
        dist.barrier()
        win.put(torch.ones(1), right, signal=0)
        win.wait_signal(left)
        assert win.local[0] == 1
        for slot in (-1, 4):
            words = f"slot is {slot}"
            for call in (win.signal, win.wait_signal, win.read_signal):
                refused("ValueError", words, call, right, slot)
            refused("ValueError", words, win.put, torch.zeros(1), right, signal=slot)
            refused("ValueError", words, win.put_v, [torch.zeros(1)], right, [0], signal=slot)
        dist.barrier()
        assert win.local[0] == 1  # what was refused has changed nothing
        for count in (0, -1):
            refused("ValueError", f"count is {count}", win.wait_signal, left, count=count)
        refused("ValueError", "op is 'max'", win.signal, right, op="max")


@pytest.mark.parametrize("world", [1, 2, 3])
def test_signals_count(ranks: Ranks, world: int) -> None:
    ranks.run(check_counting, world=world)


def check_all_and_any(rank: int, world: int) -> None:
    others = [peer for peer in range(world) if peer != rank]
    with rma.Window(torch.zeros(world, dtype=torch.int64)) as win:
        for peer in others:
            win.put(torch.tensor([rank + 1]), peer, rank, signal=0)
        win.wait_signal()
        assert win.local.sum() == world * (world + 1) // 2 - rank - 1
        win.fence()
        # Of any: each is told once, and nobody twice.
        for peer in others:
            win.signal(peer, 1)
        told = [win.wait_signal(others, 1, any_of=True) for _ in others]
        assert sorted(told) == others
        assert not win.test_signal(others, 1, any_of=True)
        win.fence()
        # All or nothing: the last rank's signal is missing, and the others' are still there.
        last = world - 1
        if rank != last:
            for peer in others:
                win.signal(peer, 2)
        dist.barrier()
        if rank != last:
            refused("CollectiveTimeout", f"rank {last}", win.wait_signal, others, 2, timeout=_SHORT)
            assert not win.test_signal(None, 2)
            assert all(win.test_signal(peer, 2) for peer in others if peer != last)
        else:
            assert win.test_signal(None, 2)
        assert win.test_signal(iter(others), 0) is False
        refused("ValueError", "peers is empty", win.wait_signal, [], any_of=True)
        refused("ValueError", f"peer is {world}", win.wait_signal, [world])


def check_nobody_to_wait_for(rank: int, world: int) -> None:
    """A program for any number of ranks runs with one: all of none have signalled, and none of none has."""
    with rma.Window(torch.zeros(1)) as win:
        nobody: Any
        for nobody in (None, []) if world == 1 else ([],):
            win.wait_signal(nobody)
            assert win.test_signal(nobody)
            work: Any = win.wait_signal(nobody, async_op=True)
            work.wait()
            for ask in (win.wait_signal, win.test_signal):
                refused("ValueError", "wait_signal: peers is empty", ask, nobody, any_of=True)
            refused("ValueError", "slot is -1", win.wait_signal, nobody, -1)
            refused("ValueError", "count is 0", win.wait_signal, nobody, 0, 0)


@pytest.mark.parametrize("world", [1, 2])
def test_nobody_to_wait_for(ranks: Ranks, world: int) -> None:
    ranks.run(check_nobody_to_wait_for, world=world)


@pytest.mark.parametrize("world", [2, 4])
def test_signals_of_all_and_of_any(ranks: Ranks, world: int) -> None:
    ranks.run(check_all_and_any, world=world)


def check_threads_share_signals(rank: int, world: int, count: int) -> None:
    """Threads of a rank wait for the same signals: what one takes the others do not."""
    with rma.Window(torch.zeros(1)) as win:
        if rank == 0:
            threads = [threading.Thread(target=lambda: win.wait_signal(1, count=count)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert win.read_signal(1) == 0
        else:
            for _ in range(3 * count):
                win.signal(0)


def test_threads_share_signals(ranks: Ranks) -> None:
    ranks.run(check_threads_share_signals, 500, world=2)


def check_order(rank: int, world: int, count: int) -> None:
    """A signal is seen after the data that was put before it, however it was put."""
    with rma.Window(torch.zeros(2000, dtype=torch.int64)) as win:
        for number in range(1, count + 1):
            if rank == 0:
                win.put(torch.full((1000,), number), 1)
                win.accumulate(torch.full((1000,), 1), 1, 1000)
                win.signal(1)
                win.wait_signal(1)
            else:
                win.wait_signal(0)
                assert win.local.eq(number).all()
                win.signal(0)


def test_a_signal_comes_after_the_data(ranks: Ranks) -> None:
    ranks.run(check_order, 300, world=2)


def check_locks(rank: int, world: int, count: int) -> None:
    """Alone: what is read and written back under the lock is never lost. Shared: all are inside at once."""
    with rma.Window(torch.zeros(3, dtype=torch.int64)) as win:
        for _ in range(count):
            with win.lock(0) as lock:
                assert (lock.peer, lock.shared, lock.broken) == (0, False, None)
                seen = torch.zeros(1, dtype=torch.int64)
                win.get(seen, 0)
                win.put(seen + 1, 0)
        win.fence()
        assert rank != 0 or win.local[0] == count * world
        with win.lock(0, shared=True):
            dist.barrier()  # all have it
            if rank == world - 1:
                refused("CollectiveTimeout", "lock of the window of rank 0", win.lock, 0, timeout=_SHORT)
            dist.barrier()
        # One who waits alone keeps new ones out, and comes in when the last of those who share has left.
        for number in range(count):
            with win.lock(world - 1, shared=number % 3 != 0, timeout=timedelta(seconds=_LIMIT_S)) as lock:
                if not lock.shared:
                    value = win.swap(1, world - 1, 2)
                    assert value == 0
                    win.swap(0, world - 1, 2)
                else:
                    assert win.fetch_add(0, world - 1, 2) == 0


@pytest.mark.parametrize("world", [1, 2, 4])
def test_locks(ranks: Ranks, world: int) -> None:
    ranks.run(check_locks, 50, world=world)


def check_lock_rules(rank: int, world: int) -> None:
    with rma.Window(torch.zeros(1)) as win:
        if rank == 0:
            lock = win.lock(1)
            context().meet("held")
            refused("CollectiveTimeout", "rank 0 holds", win.lock, 1, timeout=_SHORT)  # also its own
            context().meet("tried")
            lock.release()
            lock.release()  # again: nothing
            refused("RuntimeError", "has been released", lock.__enter__)  # nobody works under a lock that is not held
            context().meet("released")
        else:
            context().meet("held")
            for shared in (False, True):
                refused("CollectiveTimeout", "rank 0 holds", win.lock, 1, shared, timeout=_SHORT)
            with win.lock(0):  # each window has a lock of its own
                pass
            context().meet("tried")
            context().meet("released")
            with win.lock(1, timeout=timedelta(seconds=_LIMIT_S)):
                pass
        # An exception gives it back, and is the one that is seen.
        refused("ZeroDivisionError", "", _raise_inside, win)
        dist.barrier()
        with win.lock(0), win.lock(1) if rank == 0 else win.lock(1, timeout=timedelta(seconds=_LIMIT_S)):
            pass


def _raise_inside(win: rma.Window) -> None:
    with win.lock(0):
        raise ZeroDivisionError


def test_rules_of_locks(ranks: Ranks) -> None:
    ranks.run(check_lock_rules, world=2)


def check_threads_and_locks(rank: int, world: int, count: int) -> None:
    with rma.Window(torch.zeros(2, dtype=torch.int64)) as win:
        inside: list[Any] = []

        def work() -> None:
            for _ in range(count):
                with win.lock(0):
                    inside.append(None)
                    assert len(inside) == 1
                    win.put(torch.tensor([int(win.get_accumulate(torch.zeros(1, dtype=torch.int64), 0)) + 1]), 0)
                    inside.pop()

        failures: list[Any] = []
        threads = [threading.Thread(target=lambda: failures.append(catch(work))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == [None] * 3, failures
        win.fence()
        assert rank != 0 or win.local[0] == count * world * 3


def test_threads_exclude_each_other(ranks: Ranks) -> None:
    ranks.run(check_threads_and_locks, 100, world=2)
