"""Windows that are closed: here, by another rank alone, by all in other orders. Mapped and served ones are alike."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import Caught, catch, needed, refused
from ._harness import Ranks, context

pytestmark = pytest.mark.nccl2_only("gloo has no windows")

_SHORT = timedelta(seconds=0.2)
_SOON_S = 5.0  # on a loaded machine; far less than any timeout of the group
_MEMORIES: dict[str, Callable[[], Any]] = {
    "mapped": lambda: torch.zeros(4),
    "served": lambda: np.zeros(4, dtype=np.float32),
}


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


def _leave_by_exception(win: rma.Window) -> None:
    with win:
        raise ZeroDivisionError


def _waited(work: Any) -> None:
    work.wait()


def check_closed_there(rank: int, world: int, reach: str) -> None:
    """Rank 1 leaves by an exception: its window ends, that of the others goes on between them."""
    win = rma.Window(_MEMORIES[reach]())
    if rank == 1:
        refused("ZeroDivisionError", "", _leave_by_exception, win)
        assert win.is_closed
    dist.barrier()
    if rank != 1:
        other = 2 - rank
        words = "rank 1 has closed the window"
        for call in (win.signal, win.wait_signal, win.lock, win.flush, win.remote):
            assert refused("PeerFailure", words, call, 1).ranks == (1,)
        for moving in (win.put, win.get, win.accumulate, win.get_accumulate):
            assert refused("PeerFailure", words, moving, torch.zeros(1), 1).ranks == (1,)
        for many in (win.put_v, win.get_v):
            assert refused("PeerFailure", words, many, [torch.zeros(1)], 1, [0]).ranks == (1,)
        for single in (win.fetch_add, win.swap):
            assert refused("PeerFailure", words, single, 1.0, 1).ranks == (1,)
        assert refused("PeerFailure", words, win.compare_swap, 0.0, 1.0, 1).ranks == (1,)
        assert refused("PeerFailure", words, win.fence).ranks == (1,)
        assert [win.attr(peer).is_closed for peer in range(world)] == [False, True, False]
        caught = refused("PeerFailure", words, lambda: _waited(win.put(torch.zeros(1), 1, async_op=True)))
        assert (caught.op, caught.ranks) == ("put", (1,))
        win.flush()  # to all that are left
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


@pytest.mark.parametrize("reach", _MEMORIES)
def test_a_window_that_is_closed_there(ranks: Ranks, reach: str) -> None:
    ranks.run(check_closed_there, reach, world=3, group_timeout=30.0)


_WAITS: dict[str, Callable[[rma.Window], Any]] = {
    "wait_signal": lambda win: win.wait_signal(1),
    "any of them": lambda win: win.wait_signal([1], any_of=True),
    "lock": lambda win: win.lock(1),
    "Work": lambda win: win.wait_signal(1, async_op=True).wait(),
}


def check_woken(rank: int, world: int, name: str, reach: str) -> Caught | None:
    win = rma.Window(_MEMORIES[reach]())
    if rank == 1:
        win.lock(1)
        context().meet("locked")
        context().await_signpost("waiting")
        win._close(False, None)  # as an exception in its block does
        context().await_signpost("woken")
        return None
    context().meet("locked")
    ended: list[Caught] = []
    entered = threading.Event()

    def block() -> None:
        entered.set()
        ended.append(needed(lambda: _WAITS[name](win)))

    thread = threading.Thread(target=block, daemon=True)
    thread.start()
    entered.wait()
    context().signpost("waiting")
    thread.join(_SOON_S)
    assert not thread.is_alive()
    context().signpost("woken")
    win.close()
    return ended[0]


@pytest.mark.parametrize("reach", _MEMORIES)
@pytest.mark.parametrize("name", _WAITS)
def test_whoever_waits_for_a_window_that_is_closed_is_woken(ranks: Ranks, name: str, reach: str) -> None:
    caught = ranks.run(check_woken, name, reach, world=2, timeout=30.0)[0]
    assert caught.kind == "PeerFailure", caught
    assert caught.ranks == (1,), caught
    assert "rank 1 has closed the window" in caught.text, caught


def check_orders(rank: int, world: int, reach: str) -> None:
    first, second = rma.Window(_MEMORIES[reach]()), rma.Window(_MEMORIES[reach]())
    order = [second, first] if rank == 1 else [first, second]
    caught = [one for one in map(catch, (win.close for win in order)) if one is not None]
    assert caught
    for one in caught:
        assert one.kind == "CollectiveMismatch", one
        assert "close their windows in the same order" in one.text, one
        assert len(one.ranks) == 1, one
        assert one.seconds() < _SOON_S, one
    assert first.is_closed
    assert second.is_closed
    with rma.Window(_MEMORIES[reach]()), rma.Window(_MEMORIES[reach]()) as again:
        again.put(torch.ones(4), (rank + 1) % world, signal=0)
        again.wait_signal((rank - 1) % world)


@pytest.mark.parametrize("reach", _MEMORIES)
@pytest.mark.parametrize("world", [2, 3])
def test_windows_that_are_closed_in_different_orders(ranks: Ranks, world: int, reach: str) -> None:
    ranks.run(check_orders, reach, world=world, group_timeout=60.0)


def check_closed_in_time(rank: int, world: int, reach: str) -> None:
    """Rank 1 does not come to close its window, and uses it."""
    win = rma.Window(_MEMORIES[reach]())
    if rank != 1:
        caught = refused("CollectiveTimeout", "did not come", win.close, timeout=_SHORT)
        assert caught.seconds() < _SOON_S
        assert 1 in caught.ranks, caught
        assert win.is_closed
    dist.barrier()
    if rank == 1:
        win.fetch_add(1.0, 1)
        win.close()
    dist.barrier()
    with rma.Window(torch.zeros(4)) as again:
        again.put(torch.ones(4), (rank + 1) % world, signal=0)
        again.wait_signal((rank - 1) % world)


@pytest.mark.parametrize("reach", _MEMORIES)
@pytest.mark.parametrize("world", [2, 3])
def test_closing_ends_in_time(ranks: Ranks, world: int, reach: str) -> None:
    ranks.run(check_closed_in_time, reach, world=world)
