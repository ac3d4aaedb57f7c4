"""One-sided windows: what put and get move, of which types and layouts, in which order, and between whom.

Updates, signals and locks: test_rma_updates.py, test_rma_signals.py. What a window can be over: test_rma_memory.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist

from pycomms import rma

from ._errors import refused
from ._harness import Ranks
from ._reference import DTYPES

pytestmark = pytest.mark.nccl2_only("gloo has no windows")

_WORLDS = (2, 3, 4, 8)
_SIZES = (0, 1, 3, 1000, 20_000)  # the last is no longer copied at once


@functools.cache
def pattern(rank: int, size: int, dtype: torch.dtype) -> torch.Tensor:
    """Every bit pattern of a byte turns up; two ranks' differ. Compared by bytes: NaN is as good as any."""
    values = (torch.arange(size * dtype.itemsize) * 7 + rank * 31 + 1) % 251
    return (values % 2 if dtype is torch.bool else values).to(torch.uint8).view(dtype)


def raw(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def check_ring(rank: int, world: int) -> None:
    left, right = (rank - 1) % world, (rank + 1) % world
    for dtype in DTYPES:
        with rma.Window(torch.zeros(max(_SIZES) + 5, dtype=dtype), name=str(dtype)) as win:
            for size in _SIZES:
                win.put(pattern(rank, size, dtype), right, 5, signal=1)
                win.wait_signal(left, slot=1)
                assert torch.equal(raw(win.local[5 : 5 + size]), raw(pattern(left, size, dtype))), (dtype, size)
                assert not raw(win.local[:5]).any()
                win.signal(left)  # it may be overwritten
                win.wait_signal(right)


@pytest.mark.parametrize("world", _WORLDS)
def test_a_put_with_a_signal_goes_round_the_ring(ranks: Ranks, world: int) -> None:
    ranks.run(check_ring, world=world)


def check_get(rank: int, world: int) -> None:
    for dtype in DTYPES:
        with rma.Window(pattern(rank, max(_SIZES), dtype)) as win:
            for peer in {rank, (rank + 1) % world, (rank + 2) % world}:
                for size in _SIZES:
                    fetched = torch.zeros(size, dtype=dtype)
                    win.get(fetched, peer, max(_SIZES) - size)
                    assert torch.equal(raw(fetched), raw(pattern(peer, max(_SIZES), dtype)[max(_SIZES) - size :]))


@pytest.mark.parametrize("world", [1, 2, 4])
def test_get_sees_what_every_rank_has(ranks: Ranks, world: int) -> None:
    ranks.run(check_get, world=world)


# Views of a matrix of 12 by 20: places in a window, and tensors that are put or fetched.
_VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "all": lambda m: m,
    "row": lambda m: m[3],
    "column": lambda m: m[:, 4],
    "block": lambda m: m[2:7, 5:11],
    "steps": lambda m: m[1::3, ::2],
    "steps in a row": lambda m: m[5, 1::4],
    "transposed": lambda m: m.t(),
    "block, transposed": lambda m: m[1:4, 2:8].t(),
    "in three dimensions": lambda m: m.view(3, 4, 20)[1:, 1:3, 4:9].permute(2, 0, 1),
    "one element": lambda m: m[11, 19],
    "nothing": lambda m: m[4:4, 3:9],
    "a row of nothing": lambda m: m[2, 7:7],
}


def check_views(rank: int, world: int, dtype: torch.dtype) -> None:
    """From views of a matrix here to the same views of the one in the next rank's window, and back from them."""
    right = (rank + 1) % world
    mine = torch.arange(240, dtype=torch.int64).view(12, 20).to(dtype) + rank * 1000
    with rma.Window(torch.zeros(12, 20, dtype=dtype)) as win:
        for name, view in _VIEWS.items():
            win.local.zero_()
            win.fence()
            win.put(view(mine), right, view(win.local))
            win.fence()
            expected = torch.zeros(12, 20, dtype=dtype)
            view(expected).copy_(view(mine - rank * 1000 + (rank - 1) % world * 1000))
            assert torch.equal(win.local, expected), name
            fetched = torch.full((12, 20), -1, dtype=dtype)
            win.get(view(fetched), right, view(win.local))
            here = torch.full((12, 20), -1, dtype=dtype)
            view(here).copy_(view(mine))
            assert torch.equal(fetched, here), name
            win.fence()
            win.put(view(mine).clone(memory_format=torch.contiguous_format), right, view(win.local))
            win.put(view(mine), rank, view(win.local))
            win.fence()
            assert torch.equal(view(win.local), view(mine)) or right != rank


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int8, torch.complex128])
def test_strides_on_both_sides(ranks: Ranks, dtype: torch.dtype) -> None:
    ranks.run(check_views, dtype, world=2)


def check_scalars(rank: int, world: int) -> None:
    """Tensors with no dimension are one element."""
    with rma.Window(torch.tensor(0.5)) as win:
        assert win.local.shape == ()
        win.put(torch.tensor(rank + 1.0), (rank + 1) % world, signal=0)
        win.wait_signal((rank - 1) % world)
        assert float(win.local) == (rank - 1) % world + 1
        fetched = torch.tensor(0.0)
        win.get(fetched, rank, win.local)
        assert torch.equal(fetched, win.local)
        assert win.remote((rank + 1) % world).shape == ()


@pytest.mark.parametrize("world", [1, 2, 3])
def test_tensors_without_dimensions(ranks: Ranks, world: int) -> None:
    ranks.run(check_scalars, world=world)


def check_lazy(rank: int, world: int) -> None:
    """A conjugate or a negative that torch has not computed yet is refused, as by collectives: its memory lies."""
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    words = "lazy conjugate or negation"
    refused("ValueError", words, rma.Window, numbers.conj())
    with rma.Window(torch.zeros(2, dtype=torch.complex64)) as win:
        for call in (win.put, win.get):
            refused("ValueError", words, call, numbers.conj(), rank)
        refused("ValueError", words, win.put, numbers, rank, win.local.conj())
        win.put(numbers.conj().resolve_conj(), rank)
        assert win.local.tolist() == [1 - 2j, 3 + 4j]
    with rma.Window(torch.zeros(2)) as win:
        negative = numbers.conj().imag
        assert negative.is_neg()
        for moving in (win.put, win.get, win.accumulate, win.get_accumulate):
            refused("ValueError", words, moving, negative, rank)
        for many in (win.put_v, win.get_v):
            refused("ValueError", words, many, [negative], rank, [0])
        assert not win.local.any()


def test_lazy_conjugates_are_refused(ranks: Ranks) -> None:
    ranks.run(check_lazy, world=1)


def check_many_pieces(rank: int, world: int) -> None:
    right = (rank + 1) % world
    with rma.Window(torch.zeros(10, 8)) as win:
        pieces = [torch.full((3,), 1.0 + rank), torch.full((10,), 2.0 + rank), torch.tensor(3.0 + rank), torch.ones(0)]
        places: list[int | torch.Tensor] = [0, win.local[:, 5], win.local[9, 7], 80]
        win.put_v(pieces, right, places, signal=2)
        win.wait_signal((rank - 1) % world, slot=2)
        left = (rank - 1) % world
        expected = torch.zeros(10, 8)
        expected[0, :3], expected[:, 5], expected[9, 7] = 1.0 + left, 2.0 + left, 3.0 + left
        assert torch.equal(win.local, expected)
        win.fence()
        fetched = [torch.zeros(3), torch.zeros(10, 2)[:, 1], torch.tensor(0.0), torch.ones(0)]
        win.get_v(fetched, right, places)
        assert all(torch.equal(got, sent) for got, sent in zip(fetched, pieces, strict=True))
        win.put_v([], right, [], signal=3)
        win.wait_signal(left, slot=3)
        win.get_v([], right, [])
        assert win.read_signal(left, 2) == 0


@pytest.mark.parametrize("world", [1, 2, 3])
def test_many_pieces_in_one_operation(ranks: Ranks, world: int) -> None:
    ranks.run(check_many_pieces, world=world)


def check_asynchronous(rank: int, world: int) -> None:
    """Of small and large, queued and not: each operation sees what was issued before it."""
    right, large = (rank + 1) % world, 300_000
    with rma.Window(torch.zeros(large, dtype=torch.int64)) as win:
        works: list[Any] = []
        for number in range(20):
            size = large if number % 3 == 0 else 10
            works.append(win.put(torch.full((size,), number + 1), right, async_op=True))
            works.append(win.accumulate(torch.full((5,), 100), right, async_op=True))
            fetched = torch.zeros(10, dtype=torch.int64)
            works.append(win.get(fetched, right, async_op=True))
            old = win.get_accumulate(torch.full((3,), 1000), right, 4, async_op=True)
            works.append(win.flush(right, async_op=True))
            if number % 4 == 0:
                # Behind everything that is queued.
                assert win.fetch_add(0, right) == number + 101
                assert all(work.is_completed() or work.wait() for work in works)
            else:
                works[-2].wait()
            assert fetched.tolist() == [number + 101] * 5 + [number + 1] * 5
            assert torch.equal(_result(works[-2])[0], fetched)
            old.wait()
            assert _result(old)[0].tolist() == [number + 101] + [number + 1] * 2
        win.flush_local()
        for work in works:
            work.wait()
            assert work.is_completed()
            assert work.is_success()
            assert work.exception() is None
        win.fence()


def _result(work: Any) -> Sequence[torch.Tensor]:
    results: Sequence[torch.Tensor] = work.result()
    return results


@pytest.mark.needs_torch("2.13", "Work.exception() in Python")
@pytest.mark.parametrize("world", [1, 2, 3])
def test_asynchronous_operations_run_in_order(ranks: Ranks, world: int) -> None:
    ranks.run(check_asynchronous, world=world)


def check_a_queued_wait(rank: int, world: int) -> None:
    """What is queued behind a wait for a signal comes after the signal."""
    with rma.Window(torch.zeros(4)) as win:
        if rank == 0:
            waiting: Any = win.wait_signal(1, slot=5, count=2, async_op=True)
            fetched = torch.zeros(4)
            behind: Any = win.get(fetched, 0, async_op=True)
            assert not waiting.is_completed()
        dist.barrier()
        if rank == 1:
            win.put(torch.ones(2), 0, signal=5)
            win.put(torch.ones(2), 0, 2, signal=5)
        if rank == 0:
            behind.wait()
            assert fetched.tolist() == [1.0] * 4
            waiting.wait()


def test_a_wait_for_a_signal_can_be_queued(ranks: Ranks) -> None:
    ranks.run(check_a_queued_wait, world=2)


def check_futures(rank: int, world: int) -> None:
    with rma.Window(torch.arange(100_000.0)) as win:
        fetched = torch.zeros(100_000)
        work = win.get(fetched, rank, async_op=True)
        assert work is not None
        assert work.get_future().wait()[0] is fetched
        assert torch.equal(fetched, win.local)


@pytest.mark.parametrize("world", [1, 2])
def test_works_have_futures(ranks: Ranks, world: int) -> None:
    ranks.run(check_futures, world=world)


def check_own_memory_lives(rank: int, world: int) -> None:
    """What is put asynchronously may be forgotten by the caller at once."""
    size = 200_000
    with rma.Window(torch.zeros(8, size)) as win:
        for row in range(8):
            win.put(torch.full((2, size), float(row + 1))[:, ::2].reshape(size), rank, win.local[row], async_op=True)
        win.flush()
        assert torch.equal(win.local.amin(1), win.local.amax(1))
        assert win.local[:, 0].tolist() == [float(row + 1) for row in range(8)]


def test_a_source_lives_as_long_as_it_is_needed(ranks: Ranks) -> None:
    ranks.run(check_own_memory_lives, world=1)


def check_sizes(rank: int, world: int) -> None:
    """Rank r has 3 r elements: rank 0 none."""
    with rma.Window(torch.full((3 * rank,), float(rank))) as win:
        for peer in range(world):
            about = win.attr(peer)
            assert (about.numel, about.nbytes) == (3 * peer, 12 * peer)
            assert about.reach == ("self" if peer == rank else "mapped")
            fetched = torch.zeros(3 * peer)
            win.get(fetched, peer)
            assert fetched.tolist() == [float(peer)] * (3 * peer)
            assert win.remote(peer).tolist() == fetched.tolist()
            refused("ValueError", f"the window of rank {peer}", win.put, torch.ones(1), peer, 3 * peer)
            win.put(torch.ones(0), peer, 3 * peer)  # nothing fits at the end
        # A view of the local tensor stands for a place that the peer has, and rank 0 has not.
        if rank == 1:
            refused("ValueError", "the window of rank 0", win.put, torch.ones(1), 0, win.local[2:])


@pytest.mark.parametrize("world", [2, 4])
def test_sizes_that_differ(ranks: Ranks, world: int) -> None:
    ranks.run(check_sizes, world=world)


def check_bounds(rank: int, world: int) -> None:
    """Also where the place in bytes is more than a number of 64 bits can say. What was refused has changed nothing."""
    with rma.Window(torch.zeros(8, dtype=torch.int64)) as win:
        one = torch.ones(1, dtype=torch.int64)
        for offset in (-1, 8, 2**32, 2**60 + 1, 2**61, 2**61 + 1, 2**63 - 1):
            for call in (win.put, win.get, win.accumulate, win.get_accumulate):
                refused("ValueError", "", call, one, rank, offset)
            refused("ValueError", "", win.fetch_add, 1, rank, offset)
            refused("ValueError", "", win.swap, 1, rank, offset)
            refused("ValueError", "", win.compare_swap, 0, 1, rank, offset)
            refused("ValueError", "", win.put_v, [one, one], rank, [0, offset])
            refused("ValueError", "", win.get_v, [one.clone(), one], rank, [0, offset])
        refused("ValueError", "72 bytes at offset 0", win.put, one.expand(9), rank)
        refused("ValueError", "8 bytes at offset 64", win.put, one, rank, 8)
        refused("ValueError", "not inside its 64 bytes", win.get, torch.zeros(3, 3, dtype=torch.int64), rank)
        refused("ValueError", "2 places", win.put_v, [one], rank, [0, 1])
        for view in (torch.zeros(1, dtype=torch.int64), win.local.expand(2, 8)[:, 0], win.local.view(torch.int32)):
            refused("ValueError", "", win.put, torch.ones(view.shape, dtype=torch.int64), rank, view)
        refused("ValueError", "[2]", win.put, one, rank, win.local[:2])
        refused("TypeError", "offset", win.put, one, rank, 1.5)
        assert not win.local.any()
        assert int(one) == 1


def test_bounds(ranks: Ranks) -> None:
    ranks.run(check_bounds, world=1)


def check_several(rank: int, world: int) -> None:
    """Windows of one group and of others, used together. In a subgroup ranks are those of the group."""
    evens: Any = dist.new_group(list(range(0, world, 2)))
    backwards: Any = dist.new_group(list(range(world))[::-1], use_local_synchronization=False)
    place = dist.get_group_rank(backwards, rank)
    first = rma.Window(torch.zeros(4, dtype=torch.int64), name="first")
    second = rma.Window(torch.zeros(4, dtype=torch.int32), slots=2)
    third = rma.Window(torch.zeros(world, dtype=torch.int64), backwards)
    assert (third.rank, third.size) == (place, world)
    for peer in range(world):
        first.put(torch.tensor([rank]), peer, rank % 4, signal=7)
        second.accumulate(torch.tensor([rank + 1], dtype=torch.int32), peer, 3)
        third.put(torch.tensor([place]), peer, place)
    first.wait_signal(slot=7)
    second.fence()
    third.fence()
    assert int(second.local[3]) == world * (world + 1) // 2
    assert third.local.tolist() == list(range(world))
    if rank % 2 == 0:
        with rma.Window(torch.tensor([rank * 10]), evens) as fourth:
            assert (fourth.rank, fourth.size) == (rank // 2, (world + 1) // 2)
            fetched = torch.zeros(1, dtype=torch.int64)
            fourth.get(fetched, fourth.size - 1)
            assert int(fetched) == (fourth.size - 1) * 20
    second.close()
    first.put(torch.tensor([5]), rank)
    assert first.local[0] == 5
    third.close()
    first.close()


@pytest.mark.parametrize("world", [2, 3])
def test_several_windows_and_groups(ranks: Ranks, world: int) -> None:
    ranks.run(check_several, world=world)
