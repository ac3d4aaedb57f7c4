"""Ctrl-C while a rank is blocked in an operation raises KeyboardInterrupt at once; a stopped rank is waited for."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
import torch
import torch.distributed as dist

from ._errors import Caught, needed
from ._harness import Ranks, context

if TYPE_CHECKING:
    from collections.abc import Callable


def _blocked_all_reduce() -> None:
    dist.all_reduce(torch.ones(10))


def _blocked_barrier() -> None:
    dist.barrier()


def _blocked_wait() -> None:
    work = dist.all_reduce(torch.ones(10), async_op=True)
    assert work is not None
    work.wait()


def _blocked_recv() -> None:
    dist.recv(torch.ones(10), 1)


BLOCKED: dict[str, Callable[[], None]] = {
    "all_reduce": _blocked_all_reduce,
    "barrier": _blocked_barrier,
    "wait": _blocked_wait,
    "recv": _blocked_recv,
}


def check_interrupted(rank: int, world: int, name: str) -> Caught | None:
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        context().await_signpost("interrupted")
        return None
    context().tell("about to block")
    caught = needed(BLOCKED[name])
    context().signpost("interrupted")
    return caught


@pytest.mark.nccl2_only("gloo does not answer Ctrl-C while it is blocked")
@pytest.mark.parametrize("name", BLOCKED)
def test_ctrl_c_ends_a_blocked_operation(ranks: Ranks, name: str) -> None:
    with ranks.start(check_interrupted, name, world=2, fresh=True, group_timeout=20.0) as run:
        run.told(0)
        run.await_state(0, "S")
        sent_ns = run.signal(0, signal.SIGINT)
        caught = run.finish()[0]
    assert caught.kind == "KeyboardInterrupt", caught
    assert (caught.raised_ns - sent_ns) / 1e9 < 0.5


def check_stop_on_the_way(rank: int, world: int, count: int) -> None:
    for number in range(count):
        if rank == 1 and number == count // 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        tensor = torch.full((5000,), float(rank))
        dist.all_reduce(tensor)
        assert tensor[0] == world * (world - 1) / 2


@pytest.mark.parametrize("world", [2, 3])
def test_a_stopped_rank_is_waited_for(ranks: Ranks, world: int) -> None:
    with ranks.start(check_stop_on_the_way, 100, world=world, timeout=40.0) as run:
        run.await_state(1, "T")
        run.await_state(0, "S")  # the others wait for it without burning a core
        run.signal(1, signal.SIGCONT)
        run.finish()
