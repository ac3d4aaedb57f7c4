"""Whoever is busy in a window while something ends: the group, the window, the wait by Ctrl-C, a forked child."""

from __future__ import annotations

import gc
import os
import signal
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from pycomms import rma

from ._errors import Caught, catch, needed
from ._harness import Ranks, context

pytestmark = pytest.mark.nccl2_only("gloo has no windows")

_SOON_S = 5.0  # on a loaded machine; far less than any timeout of the group
_ENDED = ("CommunicatorClosed", "CommunicatorRevoked")

# --- ends


def _abort() -> None:
    c10d._get_default_group().abort()


_ENDS: dict[str, Callable[[], None]] = {"abort": _abort, "destroy": dist.destroy_process_group}
_BLOCKED: dict[str, Callable[[rma.Window], Any]] = {
    "wait_signal": lambda win: win.wait_signal(1),
    "any of them": lambda win: win.wait_signal(any_of=True),
    "lock": lambda win: win.lock(1),
    "Work": lambda win: win.wait_signal(1, async_op=True).wait(),
}


_MEMORIES: dict[str, Callable[[], Any]] = {
    "mapped": lambda: torch.zeros(4),
    "served": lambda: np.zeros(4, dtype=np.float32),
}


def check_ended_while_a_thread_waits(rank: int, world: int, end: str, name: str, reach: str) -> Caught | None:
    win = rma.Window(_MEMORIES[reach]())
    assert win.attr(1 - rank).reach == reach
    if rank == 1:
        lock = win.lock(1)
        context().meet("locked")
        context().await_signpost("ended")
        del lock
        return None
    context().meet("locked")
    entered = threading.Event()
    ended: list[Caught] = []

    def block() -> None:
        entered.set()
        ended.append(needed(lambda: _BLOCKED[name](win)))

    thread = threading.Thread(target=block, daemon=True)
    thread.start()
    entered.wait()
    _ENDS[end]()
    thread.join(_SOON_S)
    assert not thread.is_alive()
    for call in (partial(win.put, torch.zeros(1)), win.flush, win.lock):
        assert needed(partial(call, 1)).kind in _ENDED
    win.close()
    context().signpost("ended")
    return ended[0]


@pytest.mark.parametrize("reach", _MEMORIES)
@pytest.mark.parametrize("name", _BLOCKED)
@pytest.mark.parametrize("end", _ENDS)
def test_the_end_of_the_group_frees_whoever_waits(ranks: Ranks, end: str, name: str, reach: str) -> None:
    caught = ranks.run(check_ended_while_a_thread_waits, end, name, reach, world=2, fresh=True, timeout=30.0)[0]
    assert caught.kind in _ENDED, caught


def check_peer_that_leaves(rank: int, world: int, end: str) -> Caught | None:
    """The other rank aborts or destroys its group while this one waits for it."""
    win = rma.Window(torch.zeros(4))
    if rank == 1:
        context().await_signpost("waiting")
        _ENDS[end]()
        return None
    context().signpost("waiting")
    caught = needed(lambda: win.wait_signal(1))
    assert needed(lambda: win.put(torch.ones(1), 1)).kind == caught.kind
    return caught


@pytest.mark.parametrize("end", _ENDS)
def test_a_peer_that_leaves_is_not_waited_for(ranks: Ranks, end: str) -> None:
    caught = ranks.run(check_peer_that_leaves, end, world=2, fresh=True, timeout=30.0)[0]
    assert caught.kind in ("PeerFailure", "CommunicatorRevoked"), caught
    assert "rank 1" in caught.text, caught


# --- interruptions


def check_interrupted(rank: int, world: int, name: str) -> Caught | None:
    with rma.Window(torch.zeros(4)) as win:
        caught = None
        if rank == 1:
            lock = win.lock(1)
            context().meet("locked")
            context().await_signpost("interrupted")
            lock.release()
            win.signal(0)
        else:
            context().meet("locked")
            context().tell("about to block")
            caught = needed(lambda: _BLOCKED[name](win))
            context().signpost("interrupted")
            with win.lock(1):
                pass
            if name != "Work":  # the one that was interrupted in waiting for it still takes the signal
                win.wait_signal(1)
        dist.barrier()
        return caught


@pytest.mark.parametrize("name", _BLOCKED)
def test_ctrl_c_ends_a_blocked_operation(ranks: Ranks, name: str) -> None:
    """And nothing else: what it waited for can be had afterwards."""
    with ranks.start(check_interrupted, name, world=2, fresh=True, timeout=30.0) as run:
        run.told(0)
        run.await_state(0, "S")
        sent_ns = run.signal(0, signal.SIGINT)
        caught = run.finish()[0]
    assert caught.kind == "KeyboardInterrupt", caught
    assert (caught.raised_ns - sent_ns) / 1e9 < _SOON_S


def check_fork(rank: int, world: int) -> int:
    """A child has no part in its parent's windows, and no harm comes of its end."""
    win = rma.Window(torch.zeros(4))
    right = (rank + 1) % world
    win.put(torch.ones(4), right, async_op=True)
    large = win.get(torch.zeros(4), right, async_op=True)
    assert large is not None
    large.wait()
    win.fence()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for call in (partial(win.put, torch.zeros(1)), win.flush, win.lock, win.wait_signal, win.signal):
                assert "forked" in needed(partial(call, right)).text
            del win, large
            gc.collect()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    win.put(torch.full((4,), 2.0), right, signal=0)
    win.wait_signal((rank - 1) % world)
    assert win.local.tolist() == [2.0] * 4
    with win.lock(right):
        pass
    win.close()
    return os.waitstatus_to_exitcode(status)


def test_a_forked_child_is_no_member(ranks: Ranks) -> None:
    assert ranks.run(check_fork, world=2, fresh=True, timeout=30.0) == [0, 0]


# --- threads


def _waited(work: Any) -> None:
    work.wait()


def _uses(win: rma.Window, large: torch.Tensor, peer: int) -> list[Callable[[], Any]]:
    return [
        lambda: win.put(large, peer),
        lambda: win.get(torch.zeros(5, dtype=torch.int64), peer),
        lambda: win.fetch_add(1, peer),
        lambda: win.signal(peer, 1),
        lambda: win.test_signal(peer, 1),
        lambda: win.wait_signal(peer),
        lambda: win.lock(peer).release(),
        lambda: _waited(win.put(large, peer, async_op=True)),
        lambda: win.remote(peer)[0].item(),
    ]


def check_racing_close(rank: int, world: int, rounds: int) -> None:
    """Threads use a window that is being closed: each ends with an error that says so."""
    right = (rank + 1) % world
    for _ in range(rounds):
        win = rma.Window(torch.zeros(20_000, dtype=torch.int64))
        large = torch.ones(20_000, dtype=torch.int64)
        uses = _uses(win, large, right)
        begun = threading.Barrier(len(uses) + 1)
        ends: list[Caught | None] = []

        def use(call: Callable[[], Any], begun: threading.Barrier = begun, ends: list[Any] = ends) -> None:
            begun.wait()
            ends.append(needed(lambda: [call() for _ in range(10_000_000)]))

        threads = [threading.Thread(target=use, args=(call,)) for call in uses]
        for thread in threads:
            thread.start()
        begun.wait()
        catch(win.close)
        for thread in threads:
            thread.join(_SOON_S)
            assert not thread.is_alive()
        assert len(ends) == len(uses)
        for caught in ends:
            assert caught is not None
            assert caught.kind in ("CommunicatorClosed", "PeerFailure"), caught
            assert "closed" in caught.text, caught
        del uses, win
    dist.barrier()


def test_threads_race_with_close(ranks: Ranks, long: bool) -> None:
    ranks.run(check_racing_close, 50 if long else 5, world=2, timeout=110.0)
