"""What a process with windows does while its group changes. Runs on the process; see `_members`."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import Caught, needed

_DEADLINE_S = 20.0

_windows: list[rma.Window] = []
_threads: list[tuple[threading.Thread, list[Caught]]] = []
_locks: list[rma.Lock] = []


def open_window() -> str:
    """Filled with a number that tells whose it is."""
    memory = torch.full((4,), 100.0 + dist.get_rank())
    _windows.append(rma.Window(memory, name="parameters"))
    return repr(_windows[-1])


def reopen() -> list[float]:
    """What was in the memory is in the new window."""
    old = _windows[-1]
    new = old.reopen()
    assert old.is_closed
    assert new.local.data_ptr() == old.local.data_ptr()
    assert new.name == old.name
    assert not new.is_stale
    assert new.generation == old.generation + 1
    _windows.append(new)
    return list(new.local.tolist())


def gather() -> list[list[float]]:
    """The memory of all ranks of the newest window."""
    win = _windows[-1]
    win.fence()
    parts = [torch.zeros(4) for _ in range(win.size)]
    for peer, part in enumerate(parts):
        win.get(part, peer)
    win.fence()
    return [part.tolist() for part in parts]


def use_all() -> None:
    """Every kind of operation, around the ring."""
    win = _windows[-1]
    assert (win.rank, win.size) == (dist.get_rank(), dist.get_world_size())
    left, right = (win.rank - 1) % win.size, (win.rank + 1) % win.size
    win.fence()
    win.put(torch.full((4,), float(win.rank)), right, signal=0)
    win.wait_signal(left)
    assert win.local.tolist() == [float(left)] * 4
    win.fence()
    win.fetch_add(1.0, right)
    with win.lock(right, shared=True):
        work: Any = win.get(torch.zeros(4), right, async_op=True)
        work.wait()
    win.fence()
    assert win.local[0] == left + 1


def use_stale() -> dict[str, Caught]:
    """What an operation on a window of an earlier generation raises."""
    win = _windows[-1]
    assert win.is_stale
    assert not win.is_closed
    assert "of an earlier generation" in repr(win)
    tensor = torch.zeros(1)
    calls: dict[str, Callable[[], Any]] = {
        "put": partial(win.put, tensor, 0),
        "async put": partial(win.put, tensor, 0, async_op=True),
        "get": partial(win.get, tensor, 0),
        "put_v": partial(win.put_v, [tensor], 0, [0]),
        "get_v": partial(win.get_v, [tensor], 0, [0]),
        "accumulate": partial(win.accumulate, tensor, 0),
        "fetch_add": partial(win.fetch_add, 1, 0),
        "compare_swap": partial(win.compare_swap, 0, 1, 0),
        "flush": win.flush,
        "signal": partial(win.signal, 0),
        "wait_signal": partial(win.wait_signal, 0),
        "read_signal": partial(win.read_signal, 0),
        "lock": partial(win.lock, 0),
        "attr": partial(win.attr, 0),
        "remote": partial(win.remote, win.size - 1 - win.rank),
    }
    return {name: needed(call) for name, call in calls.items()}


def close_all() -> None:
    for win in _windows:
        win.close()
    _windows.clear()
    gc.collect()


def take_lock(peer: int) -> None:
    _locks.append(_windows[-1].lock(peer))


def release_lock() -> Caught:
    return needed(_locks[-1].release)


def wait_in_threads() -> None:
    """One for a signal, one for a lock that another rank holds, one for a Work."""
    win = _windows[-1]
    calls: list[Callable[[], Any]] = [
        partial(win.wait_signal, 1, 9),
        partial(win.lock, 1),
        lambda: win.wait_signal(1, 8, async_op=True).wait(),
    ]
    for call in calls:
        entered = threading.Event()
        ended: list[Caught] = []

        def block(call: Callable[[], Any] = call, entered: threading.Event = entered, ended: list[Any] = ended) -> None:
            entered.set()
            ended.append(needed(call))

        _threads.append((threading.Thread(target=block, daemon=True), ended))
        _threads[-1][0].start()
        assert entered.wait(_DEADLINE_S)


def how_the_threads_ended() -> list[Caught]:
    for thread, _ in _threads:
        thread.join(_DEADLINE_S)
        assert not thread.is_alive()
    return [ended[0] for _, ended in _threads]
