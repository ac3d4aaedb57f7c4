"""A rank is killed: whoever asks something of it hears so, soon, and windows between the living go on. Its locks are
broken, and that is told.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import Caught, needed, refused
from ._harness import Ranks, context
from ._harness.run import Run

pytestmark = pytest.mark.nccl2_only("gloo has no windows")

_VICTIM = 1
_LIMIT_S = 1.0  # as for collectives: test_peer_failure.py
_MANY = 100_000_000

_USES: dict[str, Callable[[rma.Window], Any]] = {
    "put": lambda win: win.put(torch.zeros(2), _VICTIM),
    "large put": lambda win: win.put(torch.zeros(100_000), _VICTIM),
    "get": lambda win: win.get(torch.zeros(2), _VICTIM),
    "put_v": lambda win: win.put_v([torch.zeros(2)], _VICTIM, [0]),
    "get_v": lambda win: win.get_v([torch.zeros(2)], _VICTIM, [0]),
    "accumulate": lambda win: win.accumulate(torch.zeros(2), _VICTIM),
    "fetch_add": lambda win: win.fetch_add(0, _VICTIM),
    "compare_swap": lambda win: win.compare_swap(1, 2, _VICTIM),
    "flush": lambda win: win.flush(_VICTIM),
    "signal": lambda win: win.signal(_VICTIM),
    "test_signal": lambda win: win.test_signal(_VICTIM),
    "lock": lambda win: win.lock(_VICTIM).release(),
    "remote": lambda win: win.remote(_VICTIM),
    "async get_accumulate": lambda win: win.get_accumulate(torch.zeros(2), _VICTIM, async_op=True).wait(),
    "wait_signal": lambda win: win.wait_signal(_VICTIM),
    "wait_signal of all": lambda win: win.wait_signal(),
    "wait_signal of any": lambda win: win.wait_signal([_VICTIM, _VICTIM], any_of=True),
    "async wait_signal": lambda win: win.wait_signal(_VICTIM, async_op=True).wait(),
    "fence": lambda win: win.fence(),
}
_BLOCKING = ("wait_signal", "wait_signal of all", "wait_signal of any", "async wait_signal", "fence")


def check_use_of_the_dead(rank: int, world: int, names: list[str]) -> list[Caught]:
    """The first use is under way when the other is killed; the others come afterwards."""
    win = rma.Window(torch.zeros(100_000))
    other = rma.Window(torch.zeros(4))
    context().tell("ready")
    if rank == _VICTIM:
        context().await_death()
    first = needed(lambda: [_USES[names[0]](win) for _ in range(_MANY)])
    later = [needed(partial(use, win)) for use in _USES.values()]
    for caught in later:
        assert caught.seconds() < _LIMIT_S, caught
    # Between the living all goes on, in this window and in another one; also when the group knows.
    refused("PeerFailure", f"rank {_VICTIM}", dist.all_reduce, torch.ones(1))
    right = 2 - rank
    for each in (win, other):
        each.put(torch.ones(4), right, signal=3)
        each.wait_signal(right, 3)
        assert each.local[:4].tolist() == [1.0] * 4
        each.signal(right, 4)
        assert each.wait_signal([_VICTIM, right], 4, any_of=True) == right
        with each.lock(right) as lock:
            assert lock.broken is None
        each.flush(right)
        each.get(torch.zeros(4), right)
        assert each.fetch_add(1, right, 3) == 1.0
        work: Any = each.get(torch.zeros(2), right, async_op=True)
        work.wait()
    _meet_the_living(rank)
    for each in (win, other):
        each.close()
    return [first, *later]


def _meet_the_living(rank: int) -> None:
    context().signpost(f"{rank} is through")
    context().await_signpost(f"{2 - rank} is through")


def _kill(run: Run) -> int:
    for rank in range(3):
        run.told(rank)
    return run.signal(_VICTIM, signal.SIGKILL)


@pytest.mark.parametrize("name", ["put", "large put", "get", "fetch_add", "flush", "test_signal", "lock", *_BLOCKING])
def test_a_dead_peer_is_named_soon(ranks: Ranks, name: str) -> None:
    with ranks.start(check_use_of_the_dead, [name], world=3, fresh=True, timeout=40.0) as run:
        killed_ns = _kill(run)
        answers = run.finish(died={_VICTIM})
    for rank in (0, 2):
        for caught in answers[rank]:
            assert (caught.kind, caught.ranks) == ("PeerFailure", (_VICTIM,)), f"rank {rank}: {caught}"
            assert f"rank {_VICTIM}" in caught.text, f"rank {rank}: {caught}"
        assert (answers[rank][0].raised_ns - killed_ns) / 1e9 < _LIMIT_S, f"rank {rank}: {answers[rank][0]}"


def check_locks_of_the_dead(rank: int, world: int, shared: bool) -> list[tuple[int, int | None]]:
    """It holds the locks of all windows. The others wait for them, or come later."""
    win = rma.Window(torch.zeros(4))
    if rank == _VICTIM:
        locks = [win.lock(peer, shared) for peer in range(world)]
        context().meet("locked")
        context().tell("ready")
        context().await_death()
        del locks
    context().meet("locked")
    context().tell("ready")
    broken = []
    for peer in (0, 2):
        with win.lock(peer) as lock:
            broken.append((peer, lock.broken))
        with win.lock(peer, shared=True) as lock:
            assert lock.broken is None or not shared
    caught = refused("PeerFailure", f"rank {_VICTIM}", win.lock, _VICTIM)
    assert caught.seconds() < _LIMIT_S
    _meet_the_living(rank)
    win.close()
    return broken


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_the_lock_of_a_dead_holder_is_broken_and_told(ranks: Ranks, shared: bool) -> None:
    with ranks.start(check_locks_of_the_dead, shared, world=3, fresh=True, timeout=40.0) as run:
        _kill(run)
        answers = run.finish(died={_VICTIM})
    told = [one for rank in (0, 2) for one in answers[rank] if one[1] is not None]
    assert sorted(told) == [(0, _VICTIM), (2, _VICTIM)]  # of each, one was told


def check_one_of_two_holders(rank: int, world: int) -> int | None:
    """Two share a lock and one dies: who wants it alone waits for the other."""
    win = rma.Window(torch.zeros(1))
    broken = None
    if rank == 0:
        context().meet("locked")
        context().tell("ready")
        with win.lock(0) as lock:
            assert win.local[0] == 1.0
            broken = lock.broken
    else:
        lock = win.lock(0, shared=True)
        context().meet("locked")
        context().tell("ready")
        if rank == _VICTIM:
            context().await_death()
        needed(lambda: [win.flush(_VICTIM) for _ in range(_MANY)])
        win.swap(1.0, 0)
        lock.release()
    _meet_the_living(rank)
    win.close()
    return broken


def test_one_of_two_holders_dies(ranks: Ranks) -> None:
    with ranks.start(check_one_of_two_holders, world=3, fresh=True, timeout=40.0) as run:
        _kill(run)
        assert run.finish(died={_VICTIM})[0] == _VICTIM


def check_lock_of_a_dead_window(rank: int, world: int, holder: int) -> Caught | None:
    """Its owner dies while others hold, and wait for, its lock; or it held that itself."""
    win = rma.Window(torch.zeros(1))
    lock = win.lock(_VICTIM) if rank == holder else None
    context().meet("locked")
    context().tell("ready")
    if rank == _VICTIM:
        context().await_death()
    caught = needed(lambda: win.lock(_VICTIM))
    if lock is not None:
        refused("PeerFailure", f"rank {_VICTIM}", lock.release)
        lock.release()  # again: nothing
    win.close()
    return caught


@pytest.mark.parametrize("holder", [0, _VICTIM])
def test_the_owner_of_a_lock_dies(ranks: Ranks, holder: int) -> None:
    with ranks.start(check_lock_of_a_dead_window, holder, world=3, fresh=True, timeout=40.0) as run:
        killed_ns = _kill(run)
        answers = run.finish(died={_VICTIM})
    for rank in (0, 2):
        assert (answers[rank].kind, answers[rank].ranks) == ("PeerFailure", (_VICTIM,)), answers[rank]
        assert (answers[rank].raised_ns - killed_ns) / 1e9 < _LIMIT_S


def check_death_while_making(rank: int, world: int, close: bool) -> Caught | None:
    """The others are making a window, or closing one, and wait for the one that dies."""
    win = rma.Window(torch.ones(1)) if close else None
    context().tell("ready")
    if rank == _VICTIM:
        context().await_death()
    if win is not None:
        win.close()  # there is nothing to wait for
        return None
    return needed(lambda: rma.Window(torch.ones(1)))


@pytest.mark.parametrize("close", [False, True], ids=["making", "closing"])
def test_a_death_while_windows_are_made_or_closed(ranks: Ranks, close: bool) -> None:
    with ranks.start(check_death_while_making, close, world=3, fresh=True, timeout=20.0) as run:
        killed_ns = _kill(run)
        answers = run.finish(died={_VICTIM})
    for rank in (0, 2):
        if not close:
            assert (answers[rank].kind, answers[rank].ranks) == ("PeerFailure", (_VICTIM,)), answers[rank]
            assert (answers[rank].raised_ns - killed_ns) / 1e9 < _LIMIT_S
