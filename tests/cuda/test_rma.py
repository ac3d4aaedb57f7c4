"""Windows over memory of a GPU: what NCCL offers works, on streams and with delays; what it does not says so."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

import pycomms
from pycomms import rma
from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks

from ._delays import DELAYS
from ._group import meet, sum_works


def put_round_the_ring(rank: int, world: int, delay: str) -> None:
    from ._preload import emulator  # on a rank only

    right, left = (rank + 1) % world, (rank - 1) % world
    memory = rma.empty(1024, device="cuda")
    memory.fill_(-1)
    win = rma.Window(memory)
    with emulator.delays(DELAYS[delay]):
        for turn, is_async in enumerate((False, True, False)):
            source = torch.full((16,), float(10 * turn + rank), device="cuda")
            work = win.put(source, right, 64 * turn, signal=0, async_op=is_async)
            if is_async:
                assert work is not None
                work.wait()
            win.wait_signal(left)
            assert win.local[64 * turn : 64 * turn + 16].tolist() == [10.0 * turn + left] * 16
            assert win.local[64 * turn + 16].item() == -1
        win.signal(right)
        waited = win.wait_signal(left, async_op=True)
        waited.wait()
        win.put(torch.ones(8, device="cuda"), right, win.local[200:208], signal=0)
        win.wait_signal()  # of all others; with two ranks that is the left one
        assert win.local[200:208].tolist() == [1.0] * 8
        sum_works(world)
    win.close()
    win.close()
    sum_works(world)


@pytest.mark.parametrize("delay", ["none", "300us"])
def test_put_round_the_ring(ranks: Ranks, delay: str) -> None:
    ranks.run(put_round_the_ring, delay, world=2)


def what_is_wrong(rank: int, world: int) -> list[Caught]:
    win = rma.Window(rma.empty(32, device="cuda"))
    peer = 1 - rank
    small = torch.zeros(4, device="cuda")
    caught = [
        needed(lambda: win.put(small, peer)),
        needed(lambda: win.put(small, peer, 30, signal=0)),
        needed(lambda: win.put(small.cpu(), peer, signal=0)),
        needed(lambda: win.put(small.double(), peer, signal=0)),
        needed(lambda: win.put(small, peer, win.local[0:8:2], signal=0)),
        needed(lambda: win.put(small, 7, signal=0)),
        needed(lambda: win.fetch_add(1.0, peer)),
        needed(lambda: win.lock(peer)),
        needed(lambda: win.flush()),
        needed(lambda: win.signal(peer, 3)),
        needed(lambda: win.wait_signal(peer, any_of=True)),
        needed(lambda: win.remote(peer)),
        needed(lambda: win.get(small, peer)),
    ]
    assert win.attr(peer).nbytes == 128
    assert win.attr(rank).reach == "self"
    got = torch.empty(32, device="cuda")
    win.local.fill_(rank)
    win.get(got, rank)
    assert got.tolist() == [float(rank)] * 32
    meet("wrong", rank, world)
    sum_works(world)
    win.close()
    caught.append(needed(lambda: win.put(small, peer, signal=0)))
    return caught


def test_what_is_wrong(ranks: Ranks) -> None:
    expected = [
        ("NotImplementedError", "pass signal=0"),
        ("ValueError", "not inside its 128 bytes"),
        ("ValueError", "on cpu, but the window is on cuda:0"),
        ("TypeError", "Double"),
        ("ValueError", "a view with gaps"),
        ("ValueError", "peer is 7"),
        ("NotImplementedError", "NCCL has no such operation"),
        ("NotImplementedError", "NCCL has no such operation"),
        ("NotImplementedError", "NCCL has no such operation"),
        ("NotImplementedError", "slot 0"),
        ("NotImplementedError", "all of the peers"),
        ("ValueError", "no pointer"),
        ("ValueError", "no pointer"),
        ("CommunicatorClosed", "the window is closed"),
    ]
    for caught in ranks.run(what_is_wrong, world=2):
        for one, (kind, said) in zip(caught, expected, strict=True):
            assert one.kind == kind, one
            assert said in one.text, one


def made_in_vain(rank: int, world: int) -> list[Caught]:
    memory = rma.empty(32, device="cuda")
    caught = [
        needed(lambda: rma.Window(memory if rank == 0 else memory.view(8, 4).t())),
        needed(lambda: rma.Window(memory if rank == 0 else memory.cpu())),
        needed(lambda: rma.Window(memory if rank == 0 else memory.view(torch.int32))),
    ]
    with rma.Window(memory):
        sum_works(world)
    return caught


def test_ranks_that_disagree_all_hear_of_it(ranks: Ranks) -> None:
    first, second = ranks.run(made_in_vain, world=2)
    assert [one.kind for one in first] == ["CollectiveMismatch"] * 3, first
    assert [one.kind for one in second] == ["ValueError", "CollectiveMismatch", "CollectiveMismatch"], second


def torchs_interface(rank: int, world: int) -> None:
    memory = rma.empty(16, device="cuda")
    memory.zero_()
    win = dist.distributed_c10d._new_window(memory)
    win.put(torch.full((4,), float(rank + 1), device="cuda"), 1 - rank, 8, False)
    win.wait_signal(1 - rank, False)
    assert memory[8:12].tolist() == [float(2 - rank)] * 4
    win.tensor_deregister()


@pytest.mark.needs_torch("2.14", "windows of torch itself")
def test_torchs_interface(ranks: Ranks) -> None:
    ranks.run(torchs_interface, world=2)


def window_of_before(rank: int, world: int) -> list[Caught]:
    win = rma.Window(rma.empty(32, device="cuda"))
    handles: list[Any] = [None] * world
    dist.all_gather_object(handles, pycomms.regroup_handle())
    pycomms.regroup(uuid=1, handles=handles).wait()
    caught = [needed(lambda: win.put(torch.zeros(4, device="cuda"), 1 - rank, signal=0))]
    again = win.reopen()
    again.put(torch.full((4,), float(rank), device="cuda"), 1 - rank, signal=0)
    again.wait_signal(1 - rank)
    assert again.local[:4].tolist() == [float(1 - rank)] * 4
    again.close()
    return caught


def test_a_window_of_before_a_regroup(ranks: Ranks) -> None:
    for caught in ranks.run(window_of_before, world=2, fresh=True):
        assert [one.kind for one in caught] == ["CommunicatorRevoked"]
        assert "reopen()" in caught[0].text
