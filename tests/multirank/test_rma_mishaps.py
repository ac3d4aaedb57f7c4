"""What a program had better not do to the memory, the arguments or the life of a window: it is told, and lives on."""

from __future__ import annotations

import mmap
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

_SOON_S = 10.0  # on a loaded machine; far less than any timeout of the group
_COUNT = 100_000


# --- the memory is exchanged

_MEMORIES: dict[str, Callable[[], Any]] = {
    "of torch": lambda: torch.ones(_COUNT),
    "for windows": lambda: rma.empty(_COUNT).fill_(1.0),
    "of NumPy": lambda: torch.from_numpy(np.ones(_COUNT, dtype=np.float32)),
}


def check_exchanged(rank: int, world: int, name: str) -> None:
    """Nobody's calls touch memory that is gone: what is put and fetched meanwhile goes to the old one."""
    right = (rank + 1) % world
    memory = _MEMORIES[name]()
    win = rma.Window(memory)
    if rank == 0:
        memory.share_memory_()
        # Whoever gets the old addresses next must not find the others at work there.
        spread = [torch.zeros(_COUNT) for _ in range(20)]
    dist.barrier()
    if rank == 0:
        for call in (lambda: win.put(torch.zeros(2), right), lambda: win.fetch_add(1.0, 0), win.flush):
            refused("ValueError", "share_memory_()", call)
        refused("ValueError", "share_memory_()", win.remote, right)
        assert not torch.stack(spread).any()
    else:
        fetched = torch.zeros(_COUNT)
        win.get(fetched, 0)
        assert bool((fetched == 1.0).all())
    dist.barrier()
    if rank != 0:
        win.put(torch.full((_COUNT,), 2.0), 0, signal=0)
        win.flush(0)
    dist.barrier()
    assert bool((memory == 1.0).all())  # the tensor itself is as it was
    win.close()
    refused("CommunicatorClosed", "the window is closed", win.put, torch.zeros(1), 0)
    with rma.Window(memory) as again:
        again.put(torch.full((2,), rank + 1.0), right, signal=0)
        again.wait_signal((rank - 1) % world)
        assert memory[:2].tolist() == [(rank - 1) % world + 1.0] * 2
        again.fence()


@pytest.mark.parametrize("name", _MEMORIES)
@pytest.mark.parametrize("world", [2, 3])
def test_memory_exchanged_under_a_window(ranks: Ranks, world: int, name: str) -> None:
    ranks.run(check_exchanged, name, world=world, timeout=40.0)


def check_shared_before(rank: int, world: int) -> None:
    """What torch has shared already stays where it is."""
    memory = torch.ones(_COUNT).share_memory_()
    with rma.Window(memory) as win:
        memory.share_memory_()
        win.put(torch.full((2,), rank + 2.0), (rank + 1) % world, signal=0)
        win.wait_signal((rank - 1) % world)
        assert memory[:2].tolist() == [(rank - 1) % world + 2.0] * 2
        assert win.remote(rank).data_ptr() == memory.data_ptr()


def test_memory_that_torch_has_shared(ranks: Ranks) -> None:
    ranks.run(check_shared_before, world=2)


# --- memory that will not do


def read_only() -> torch.Tensor:
    """On pages that nobody may write to, which torch does not know."""
    pages = mmap.mmap(-1, 4 * mmap.PAGESIZE, prot=mmap.PROT_READ)
    return torch.frombuffer(pages, dtype=torch.float32)


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def check_read_only(rank: int, world: int) -> None:
    memory = read_only() if rank == 0 else torch.zeros(4)
    caught = needed(lambda: rma.Window(memory))
    if rank == 0:
        assert caught.kind == "ValueError", caught
        assert "read-only" in caught.text, caught
    else:
        assert (caught.kind, caught.ranks) == ("CollectiveMismatch", (0,)), caught
        assert "read-only" in caught.text, caught
    assert caught.seconds() < _SOON_S
    with rma.Window(memory.clone()) as win:
        win.put(torch.ones(1), (rank + 1) % world)
        win.fence()
        assert win.local[0] == 1.0


@pytest.mark.parametrize("world", [1, 2])
def test_memory_that_is_read_only(ranks: Ranks, world: int) -> None:
    ranks.run(check_read_only, world=world)


_MISPLACED: dict[str, Callable[[], torch.Tensor]] = {
    "mapped": lambda: rma.empty(84, dtype=torch.uint8),
    "served": lambda: torch.frombuffer(bytearray(84), dtype=torch.uint8),
}


def check_misplaced(rank: int, world: int, name: str) -> None:
    """Elements that do not lie at multiples of their size: they can be put and fetched, but not updated in one step."""
    left, right = (rank - 1) % world, (rank + 1) % world
    held = _MISPLACED[name]()
    over = held.data_ptr() % 8
    array = held.numpy()[1 + (8 - over) % 8 :][:80].view(np.int64)
    assert array.ctypes.data % 8 == 1
    with rma.Window(array if rank != 0 or name == "served" else torch.from_numpy(array)) as win:
        assert win.attr(right).reach == ("self" if world == 1 else name)
        ones = torch.ones(2, dtype=torch.int64)
        calls: dict[str, Callable[[], Any]] = {
            "fetch_add": lambda: win.fetch_add(1, right),
            "swap": lambda: win.swap(1, right),
            "compare_swap": lambda: win.compare_swap(0, 1, right),
            "get_accumulate": lambda: win.get_accumulate(ones, right),
            "accumulate": lambda: (win.accumulate(ones, right), win.flush(right)),
        }
        for call in calls.values():
            caught = refused("ValueError", "multiples of its size", call)
            assert f"rank {right}" in caught.text, caught
        win.fence()
        assert not array.any()
        win.fence()
        win.put(torch.full((2,), rank + 1), right, 3, signal=0)
        win.wait_signal(left)
        assert array[3:5].tolist() == [left + 1] * 2
        fetched = torch.zeros(1, dtype=torch.int64)
        win.get(fetched, right, 4)
        assert fetched.tolist() == [rank + 1]
        win.fence()


@pytest.mark.parametrize("name", _MISPLACED)
@pytest.mark.parametrize("world", [1, 2])
def test_elements_that_are_misplaced(ranks: Ranks, world: int, name: str) -> None:
    ranks.run(check_misplaced, name, world=world)


# --- arguments


def check_longest(rank: int, world: int, served: bool) -> None:
    """The longest timeout there is means: for as long as it takes."""
    left, right = (rank - 1) % world, (rank + 1) % world
    memory = np.zeros(4, dtype=np.int64) if served else torch.zeros(4, dtype=torch.int64)
    for longest in (timedelta.max, timedelta(days=300_000), timedelta(days=106_752)):
        win = rma.Window(memory, timeout=longest)
        one = torch.ones(1, dtype=torch.int64)
        win.put(one, right, 1, timeout=longest)
        work: Any = win.put(one, right, signal=1, async_op=True, timeout=longest)
        work.wait()
        win.wait_signal(left, 1, timeout=longest)
        with win.lock(right, timeout=longest):
            win.get(one, right, timeout=longest)
            win.accumulate(one, right, 3, timeout=longest)
            win.fetch_add(1, right, 3, timeout=longest)
            win.compare_swap(0, 1, right, 2, timeout=longest)
        win.signal(right, timeout=longest)
        late: Any = win.wait_signal(left, async_op=True, timeout=longest)
        late.wait()
        win.flush(timeout=longest)
        win.fence(timeout=longest)
        win.close(timeout=longest)
    assert memory.tolist() == [1, 1, 1, 6]
    with rma.Window(memory) as win:
        # Less than a millisecond is still a time to wait, and less than nothing is none.
        refused("CollectiveTimeout", "waited", win.wait_signal, right, 2, timeout=timedelta(microseconds=1))
        for below in (timedelta.min, timedelta(days=-1), timedelta(microseconds=-1_000_000)):
            refused("ValueError", "a timedelta of at least 0", win.put, one, right, timeout=below)
        wrong: Any = 1
        refused("TypeError", "timedelta", win.put, one, right, timeout=wrong)
        dist.barrier()


@pytest.mark.parametrize("served", [False, True], ids=["mapped", "served"])
def test_the_longest_timeout(ranks: Ranks, served: bool) -> None:
    ranks.run(check_longest, served, world=2)


class Unprepared(rma.Window):
    """Forgets to call Window's __init__."""

    def __init__(self) -> None:
        self.prepared = False


def check_unmade(rank: int, world: int) -> None:
    refused("TypeError", "__init__", Unprepared)
    unmade: Any = rma.Window.__new__(rma.Window)
    tensor = torch.zeros(1)
    calls: list[Callable[[], Any]] = [
        lambda: unmade.put(tensor, 0),
        lambda: unmade.put(tensor, 0, async_op=True),
        lambda: unmade.get(tensor, 0),
        lambda: unmade.put_v([tensor], 0, [0]),
        lambda: unmade.get_v([tensor], 0, [0]),
        lambda: unmade.accumulate(tensor, 0),
        lambda: unmade.get_accumulate(tensor, 0),
        lambda: unmade.fetch_add(1, 0),
        lambda: unmade.swap(1, 0),
        lambda: unmade.compare_swap(0, 1, 0),
        unmade.flush,
        lambda: unmade.flush(peer=0),
        unmade.flush_local,
        unmade.fence,
        lambda: unmade.signal(0),
        lambda: unmade.wait_signal(0),
        unmade.wait_signal,
        lambda: unmade.test_signal(0),
        lambda: unmade.read_signal(0),
        lambda: unmade.lock(0),
        lambda: unmade.attr(0),
        lambda: unmade.remote(0),
        unmade.close,
        unmade.reopen,
        lambda: unmade.local,
        lambda: unmade.is_closed,
    ]
    for call in calls:
        refused("RuntimeError", "has not been made", call)
    refused("TypeError", "", rma.Window.get, tensor, tensor, 0)  # no window at all


def test_a_window_that_was_never_made(ranks: Ranks) -> None:
    ranks.run(check_unmade, world=1)


# --- its life


def check_left_by_exception(rank: int, world: int, culprit: int) -> None:
    """One leaves by an exception, and does something else; the others come to the end of the block."""
    left, right = (rank - 1) % world, (rank + 1) % world
    others = [other for other in range(world) if other != culprit]

    def work() -> None:
        with rma.Window(torch.zeros(4)) as win:
            win.put(torch.ones(4), right, signal=0)
            win.wait_signal(left)
            if rank == culprit:
                raise ZeroDivisionError
            for other in others:
                win.signal(other, 1)
            win.wait_signal(others, 1)
            assert win.local.tolist() == [1.0] * 4

    if rank == culprit:
        assert needed(work).kind == "ZeroDivisionError"
    else:
        work()  # its end is not waited for until the timeout of the group
    with rma.Window(torch.zeros(1)) as again:
        again.fetch_add(1.0, 0)
        again.fence()
        if rank == 0:
            assert again.local[0] == world
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor[0] == world


@pytest.mark.parametrize(("world", "culprit"), [(2, 0), (2, 1), (3, 0), (3, 2)])
def test_an_exception_in_the_block_of_a_window(ranks: Ranks, world: int, culprit: int) -> None:
    for _ in range(5):
        ranks.run(check_left_by_exception, culprit, world=world, timeout=40.0)
