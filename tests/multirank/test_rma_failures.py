"""What goes wrong with windows while all ranks live: wrong arguments, closed windows, ranks that do not come, timeouts.

Ends and interruptions: test_rma_ends.py; deaths: test_rma_deaths.py; what a regroup does: test_rma_regroup.py.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import needed, refused
from ._harness import Ranks

pytestmark = pytest.mark.nccl2_only("gloo has no windows")

_SHORT = timedelta(seconds=0.2)
_SOON_S = 5.0  # on a loaded machine; far less than any timeout of the group
_GROUP_S = 30.0


def check_arguments(rank: int, world: int) -> None:
    with rma.Window(torch.zeros(8), slots=2) as win:
        for peer in (-1, world, 2**20):
            words = f"peer is {peer}, but the group has ranks 0 to {world - 1}"
            for moving in (win.put, win.get, win.accumulate, win.get_accumulate):
                refused("ValueError", words, moving, torch.zeros(1), peer)
            for many in (win.put_v, win.get_v):
                refused("ValueError", words, many, [torch.zeros(1)], peer, [0])
            for single in (win.fetch_add, win.swap):
                refused("ValueError", words, single, 1.0, peer)
            refused("ValueError", words, win.compare_swap, 0.0, 1.0, peer)
            for call in (win.flush, win.flush_local, win.signal, win.wait_signal, win.read_signal, win.lock):
                refused("ValueError", words, call, peer)
            refused("ValueError", words, win.remote, peer)
            refused("ValueError", words, win.attr, peer)
        for moving in (win.put, win.get, win.accumulate, win.get_accumulate):
            refused("TypeError", "Double", moving, torch.zeros(1, dtype=torch.float64), 0)
            refused("ValueError", "meta", moving, torch.zeros(1, device="meta"), 0)
            refused("ValueError", "not dense", moving, torch.zeros(3).to_sparse(), 0)
        for op in ("SUM", "avg", ""):
            refused("ValueError", f"op is '{op}'", win.accumulate, torch.zeros(1), 0, op=op)
        for many in (win.put_v, win.get_v):
            refused("TypeError", "Long", many, [torch.zeros(1), torch.zeros(1, dtype=torch.int64)], 0, [0, 1])
        refused("ValueError", "timeout", win.put, torch.zeros(1), 0, timeout=timedelta(seconds=-1))
        refused("TypeError", "", win.put, torch.zeros(1), "0")
        wrong: Any
        for wrong in ("1", 1.0):
            refused("TypeError", f"flush_local: peer is {wrong!r}, expected an integer", win.flush_local, wrong)
            for peers in (wrong, [wrong]):
                refused("TypeError", f"wait_signal: peers is {wrong!r}, expected an integer", win.wait_signal, peers)
        refused("TypeError", "get_accumulate: src: expected a tensor", win.get_accumulate, [1.0], 0)
        refused("TypeError", "which has no memory", win.get, np.float32(1.0), 0)
        assert not win.local.any()
        dist.barrier()


@pytest.mark.parametrize("world", [1, 3])
def test_wrong_arguments_are_named(ranks: Ranks, world: int) -> None:
    ranks.run(check_arguments, world=world)


# --- making


def _all_is_well(rank: int, world: int) -> None:
    """The group works, and windows can be made."""
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert int(tensor) == world
    with rma.Window(torch.zeros(4)) as win:
        win.put(torch.ones(4), (rank + 1) % world, signal=0)
        win.wait_signal((rank - 1) % world)
        assert win.local.tolist() == [1.0] * 4


_NO_NUMBER: Any = "4"

# What one rank does wrong when the others make a window of four floats, and what it hears.
_WRONG: dict[str, tuple[str, Callable[[], Any]]] = {
    "strides": ("ValueError", lambda: rma.Window(torch.zeros(4, 2)[:, 0])),
    "device": ("ValueError", lambda: rma.Window(torch.zeros(4, device="meta"))),
    "sparse": ("ValueError", lambda: rma.Window(torch.zeros(4).to_sparse())),
    "no tensor": ("TypeError", lambda: rma.Window("memory")),
    "bool": ("TypeError", lambda: rma.Window(True)),
    "negative": ("ValueError", lambda: rma.Window(-1)),
    "no slots": ("ValueError", lambda: rma.Window(torch.zeros(4), slots=0)),
    "too many slots": ("ValueError", lambda: rma.Window(torch.zeros(4), slots=4097)),
    "slots of a wrong type": ("TypeError", lambda: rma.Window(torch.zeros(4), slots=_NO_NUMBER)),
    "a scalar": ("TypeError", lambda: rma.Window(np.float32(4.0))),
    "too many bytes": ("ValueError", lambda: rma.Window(2**63)),
    "timeout of a wrong type": ("TypeError", lambda: rma.Window(torch.zeros(4), timeout=_NO_NUMBER)),
    "negative timeout": ("ValueError", lambda: rma.Window(torch.zeros(4), timeout=timedelta(seconds=-1))),
    "other slots": ("CollectiveMismatch", lambda: rma.Window(torch.zeros(4), slots=3)),
    "other type": ("CollectiveMismatch", lambda: rma.Window(torch.zeros(4, dtype=torch.int32))),
}


def check_wrong_on_one(rank: int, world: int, culprit: int) -> None:
    for name, (kind, make) in _WRONG.items():
        caught = needed(make if rank == culprit else lambda: rma.Window(torch.zeros(4)))
        assert caught.seconds() < _SOON_S, (name, caught)
        if rank == culprit:
            assert caught.kind == kind, (name, caught)
        else:
            assert f"rank {culprit}" in caught.text, (name, caught)
            assert "PycommsError" in caught.bases, (name, caught)
        # Nothing is harmed.
        _all_is_well(rank, world)


@pytest.mark.parametrize(("world", "culprit"), [(2, 0), (3, 1)])
def test_what_is_wrong_on_one_rank_is_told_to_all(ranks: Ranks, world: int, culprit: int) -> None:
    ranks.run(check_wrong_on_one, culprit, world=world, group_timeout=_GROUP_S)


def check_one_does_not_come(rank: int, world: int) -> None:
    dist.barrier()
    if rank != 1:
        words = "rank 1 did not come"
        caught = refused("CollectiveTimeout", words, rma.Window, torch.zeros(4), timeout=_SHORT)
        assert caught.ranks == (1,)
        assert caught.seconds() < _SOON_S
    _all_is_well(rank, world)


@pytest.mark.parametrize("world", [2, 3])
def test_a_rank_that_does_not_come_is_named(ranks: Ranks, world: int) -> None:
    ranks.run(check_one_does_not_come, world=world)


# --- closed windows


def check_closed_here(rank: int, world: int) -> None:
    win = rma.Window(torch.zeros(4))
    tensor = torch.zeros(1)
    win.close()
    win.close()
    assert win.is_closed
    for moving in (win.put, win.get, win.accumulate, win.get_accumulate):
        refused("CommunicatorClosed", "the window is closed", moving, tensor, 0)
    for many in (win.put_v, win.get_v):
        refused("CommunicatorClosed", "the window is closed", many, [tensor], 0, [0])
    for call in (win.flush, win.signal, win.wait_signal, win.test_signal, win.read_signal, win.lock, win.attr):
        refused("CommunicatorClosed", "the window is closed", call, 0)
    refused("CommunicatorClosed", "the window is closed", win.fetch_add, 1, 0)
    refused("CommunicatorClosed", "the window is closed", win.fence)
    refused("CommunicatorClosed", "the window is closed", win.put, tensor, 0, async_op=True)
    dist.barrier()


@pytest.mark.parametrize("world", [1, 2])
def test_a_window_that_is_closed_here(ranks: Ranks, world: int) -> None:
    ranks.run(check_closed_here, world=world)


def check_closed_there(rank: int, world: int) -> None:
    """Rank 1 leaves by an exception: its window ends, that of the others goes on between them."""
    win = rma.Window(torch.zeros(4))
    if rank == 1:
        refused("ZeroDivisionError", "", _leave_by_exception, win)
        assert win.is_closed
    dist.barrier()
    if rank != 1:
        other = 2 - rank
        for moving in (win.put, win.get, win.accumulate):
            caught = refused("PeerFailure", "rank 1 has closed the window", moving, torch.zeros(1), 1)
            assert caught.ranks == (1,)
        for call in (win.signal, win.wait_signal, win.lock, win.flush, win.remote):
            refused("PeerFailure", "rank 1 has closed the window", call, 1)
        win.put(torch.ones(4), other, signal=0)
        win.wait_signal(other)
        assert win.local.tolist() == [1.0] * 4
        with win.lock(other):
            pass
        win.signal(other, 1)
        win.close()  # together with those who are left
        assert win.is_closed
    dist.barrier()
    with rma.Window(torch.zeros(4)) as again:
        again.fetch_add(1, 0)


def check_closed_in_time(rank: int, world: int, served: bool) -> None:
    """Rank 1 does not come to close its window, and uses it."""
    memory = np.zeros(4) if served else torch.zeros(4, dtype=torch.float64)
    win = rma.Window(memory)
    if rank != 1:
        caught = refused("CollectiveTimeout", "did not come", win.close, timeout=_SHORT)
        assert caught.seconds() < _SOON_S
        assert 1 in caught.ranks, caught
        assert win.is_closed
    dist.barrier()
    if rank == 1:
        win.fetch_add(1.0, 1)
        if served:
            refused("CollectiveTimeout", "did not come", win.close, timeout=_SHORT)
        else:
            win.close()
    dist.barrier()
    _all_is_well(rank, world)


@pytest.mark.parametrize("served", [False, True], ids=["mapped", "served"])
@pytest.mark.parametrize("world", [2, 3])
def test_closing_ends_in_time(ranks: Ranks, world: int, served: bool) -> None:
    ranks.run(check_closed_in_time, served, world=world)


def _leave_by_exception(win: rma.Window) -> None:
    with win:
        raise ZeroDivisionError


def test_a_window_that_is_closed_there(ranks: Ranks) -> None:
    ranks.run(check_closed_there, world=3)


def check_queued_operations_in_time(rank: int, world: int) -> None:
    with rma.Window(torch.zeros(4)) as win:
        if rank == 0:
            waiting: Any = win.wait_signal(1, async_op=True)
            late: Any = win.wait_signal(1, 1, timeout=_SHORT, async_op=True)
            caught = refused("CollectiveTimeout", "asynchronous", win.put, torch.ones(1), 1, timeout=_SHORT)
            assert caught.seconds() < _SOON_S
            caught = refused("CollectiveTimeout", "asynchronous", win.flush_local, 1, timeout=_SHORT)
            assert caught.seconds() < _SOON_S
        dist.barrier()
        if rank == 1:
            win.signal(0)
        else:
            waiting.wait()
            caught = refused("CollectiveTimeout", "slot 1", late.wait)
            assert "rank 1" in caught.text
            win.put(torch.ones(1), 1)
        dist.barrier()
        assert win.local[0] == rank


def test_what_is_queued_delays_a_call_until_its_timeout(ranks: Ranks) -> None:
    ranks.run(check_queued_operations_in_time, world=2)
