"""Calls that come at the wrong moment or in the wrong process: refused, and nobody is harmed."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager, _world

from ._harness import context

if TYPE_CHECKING:
    from types import FrameType

    from ._harness import Ranks


def check_refused_batch(rank: int, world: int) -> None:
    """A batch that is refused leaves nothing open: the collectives after it are real."""
    if rank == 0:
        with pytest.raises(ValueError, match="contiguous"):
            dist.batch_isend_irecv([dist.P2POp(dist.irecv, torch.ones(4, 4)[:, ::2], 1)])
    for number in range(3):
        tensor = torch.ones(100_000)
        dist.all_reduce(tensor)
        assert (tensor == world).all(), f"all_reduce {number}: {tensor.unique(return_counts=True)}, not {world}"


@pytest.mark.nccl2_only("gloo reports it otherwise")
def test_a_refused_batch_leaves_nothing_open(ranks: Ranks) -> None:
    ranks.run(check_refused_batch, world=2)


def check_abandoned_block(rank: int, world: int, *, raised_by_us: bool) -> None:
    """An exception leaves `_coalescing_manager`: what comes later is not put into the block that nobody ends."""
    cpu = torch.device("cpu")
    for _ in range(2):  # the second finds what the first left
        first = torch.full((3,), float(rank))
        with pytest.raises(ValueError, match="contiguous" if raised_by_us else "by the caller"):
            leave_block_by_exception(cpu, first, raised_by_us)
        assert not _world.pg_coalesce_state  # torch's own table, which it does not clear
        work = dist.broadcast(first, 0, async_op=True)
        assert work is not None
        work.wait()
        assert work.is_completed()
        assert (first == 0).all()
    with _coalescing_manager(device=cpu):
        dist.broadcast(torch.ones(3), 0)


def leave_block_by_exception(device: torch.device, tensor: torch.Tensor, raised_by_us: bool) -> None:
    with _coalescing_manager(device=device):
        dist.broadcast(torch.ones(3), 0)
        if raised_by_us:
            dist.broadcast(torch.ones(4, 4)[:, ::2], 0)
        raise ValueError("by the caller")


@pytest.mark.nccl2_only("gloo does not coalesce")
@pytest.mark.parametrize("raised_by_us", [True, False])
def test_a_block_that_an_exception_leaves_takes_nothing_more(ranks: Ranks, raised_by_us: bool) -> None:
    ranks.run(check_abandoned_block, world=2, raised_by_us=raised_by_us, timeout=30.0)


def check_signal_handler(rank: int, world: int) -> str:
    """Rank 0 is interrupted in an all_reduce by a handler that issues another; rank 1 comes when that has happened."""
    store = context().store("signals")
    caught = ""

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal caught
        try:
            dist.all_reduce(torch.ones(3))
        except ValueError as error:
            caught = str(error)
        store.set("handled", "yes")

    tensor = torch.ones(3)
    if rank == 0:
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        dist.all_reduce(tensor)
        signal.signal(signal.SIGALRM, before)
    else:
        store.get("handled")
        dist.all_reduce(tensor)
    assert (tensor == world).all()
    return caught


@pytest.mark.nccl2_only("gloo does not refuse it")
def test_a_collective_in_a_signal_handler_is_refused(ranks: Ranks) -> None:
    first, _ = ranks.run(check_signal_handler, world=2, timeout=30.0)
    assert "in the middle of another collective" in first


def check_wait_in_a_child(rank: int, world: int) -> None:
    received = torch.zeros(5)
    work = dist.irecv(received, 1 - rank, tag=1)
    assert work is not None
    child = os.fork()
    if child == 0:
        try:
            work.wait()
        except ValueError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    dist.send(torch.full((5,), float(rank)), 1 - rank, tag=1)
    work.wait()
    assert (received == 1 - rank).all()


@pytest.mark.nccl2_only("gloo waits there for ever")
def test_a_forked_child_does_not_wait_for_its_parents_work(ranks: Ranks) -> None:
    ranks.run(check_wait_in_a_child, world=2, timeout=30.0)
