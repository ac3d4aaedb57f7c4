"""A rank leaves the group in order while another still has operations in flight on its GPU: they end well if the one
that left has done its part, and are given up soon if not.
"""

from __future__ import annotations

import threading
import time

import torch
import torch.distributed as dist

from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks, context

from ._breaking import issue_until_it_fails
from ._group import nccl, sum_works

_LOOKS = 1000  # of the supervisor, which asks for the members at every 25th or so
_PATIENCE_S = 30.0
_BOUND_S = 5.0 + 4.0  # what docs/gpu.md says, and until it is heard of on a loaded machine


def _until_the_supervisor_has_looked() -> None:
    event = threading.Event()
    enough = nccl().calls("ncclCommGetAsyncError") + _LOOKS
    deadline = time.monotonic() + _PATIENCE_S
    while nccl().calls("ncclCommGetAsyncError") < enough and time.monotonic() < deadline:
        event.wait(0.001)
    assert nccl().calls("ncclCommGetAsyncError") >= enough


def send_and_leave(rank: int, world: int) -> None:
    """The message is on its way when the sender leaves, and the receiver's GPU has other work before it."""
    from ._preload import emulator  # on a rank only

    sum_works(world)
    tensor = torch.full((1000,), float(rank), device="cuda")
    torch.cuda.synchronize()
    if rank == 0:
        dist.send(tensor, 1)
        torch.cuda.synchronize()
        dist.destroy_process_group()
        context().signpost("left")
        return
    with emulator.held(torch.cuda.current_stream()):
        dist.recv(tensor, 0)
        context().await_signpost("left")
        _until_the_supervisor_has_looked()
    assert tensor.tolist() == [0.0] * 1000


def test_what_was_sent_before_is_received(ranks: Ranks) -> None:
    ranks.run(send_and_leave, world=2, group_timeout=60.0, fresh=True)


def leave_others_alone(rank: int, world: int) -> Caught | None:
    sum_works(world)
    torch.cuda.synchronize()
    if rank == 0:
        dist.destroy_process_group()
        return None
    return needed(lambda: issue_until_it_fails("all_reduce", rank, world))


def test_who_is_waited_for_in_vain_is_named(ranks: Ranks) -> None:
    for caught in ranks.run(leave_others_alone, world=3, group_timeout=60.0, fresh=True)[1:]:
        assert caught.kind == "PeerFailure", caught
        assert caught.ranks == (0,), caught
        assert caught.seconds() < _BOUND_S, caught
