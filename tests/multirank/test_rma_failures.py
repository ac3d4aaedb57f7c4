"""What goes wrong with windows while all ranks live: ranks that do not come or make another window, timeouts.

Wrong arguments: test_rma_arguments.py; closed windows: test_rma_closed.py. Ends and
interruptions: test_rma_ends.py; deaths: test_rma_deaths.py; what a regroup does: test_rma_regroup.py.
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


# --- the queue


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
