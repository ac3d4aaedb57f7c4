"""The end of a group: destroyed while used, used after, left behind by a process that just ends, and forked."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group
from torch.utils.data import DataLoader

from ._errors import Caught, needed
from ._harness import Ranks, context
from ._interpreters import run_interpreters

only_ours = pytest.mark.nccl2_only("a promise about our errors")


def check_use_after_destroy(rank: int, world: int) -> tuple[Caught, Caught]:
    group = _get_default_group()
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()
    tensors = [torch.ones(1)]
    return needed(lambda: group.allreduce(tensors).wait()), needed(lambda: group.barrier().wait())


@only_ours
@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_destroyed_group_says_so(ranks: Ranks, world: int) -> None:
    for errors in ranks.run(check_use_after_destroy, world=world):
        assert [caught.kind for caught in errors] == ["CommunicatorClosed"] * 2, errors


def check_work_outlives_its_group(rank: int, world: int) -> None:
    tensor = torch.full((100_000,), float(rank))
    work = dist.all_reduce(tensor, async_op=True)
    assert work is not None
    work.wait()
    future = work.get_future()
    dist.barrier()
    dist.destroy_process_group()
    assert work.is_completed()
    assert work.is_success()
    work.wait()
    assert future.wait()[0] is tensor or torch.equal(future.wait()[0], tensor)
    assert tensor[0] == world * (world - 1) / 2


@pytest.mark.parametrize("world", [1, 2, 3])
def test_a_work_outlives_its_group(ranks: Ranks, world: int) -> None:
    ranks.run(check_work_outlives_its_group, world=world)


def check_destroy_with_work_in_flight(rank: int, world: int) -> bool:
    """Nobody waits: the works are finished, or ended with an error, but not left hanging."""
    works = [dist.all_reduce(torch.ones(1 << 20), async_op=True) for _ in range(4)]
    dist.destroy_process_group()
    return all(work is not None and work.is_completed() for work in works)


@only_ours
@pytest.mark.parametrize("world", [2, 3])
def test_destroying_ends_what_is_in_flight(ranks: Ranks, world: int) -> None:
    assert all(ranks.run(check_destroy_with_work_in_flight, world=world, timeout=30.0))


def check_unmatched_receive(rank: int, world: int, in_block: bool) -> tuple[float, Caught]:
    dist.barrier()
    work: dist.Work | None
    if in_block:
        (work,) = dist.batch_isend_irecv([dist.P2POp(dist.irecv, torch.zeros(3), rank ^ 1, tag=5)])
    else:
        work = dist.irecv(torch.zeros(3), tag=5)  # of any rank: nobody sends
    assert work is not None
    begun = time.monotonic()
    dist.destroy_process_group()
    spent = time.monotonic() - begun
    assert work.is_completed()
    assert not work.is_success()
    return spent, needed(work.wait)


@only_ours
@pytest.mark.parametrize(("world", "in_block"), [(1, False), (2, False), (3, False), (2, True)])
def test_a_receive_that_nobody_matches_does_not_hold_up_the_end(ranks: Ranks, world: int, in_block: bool) -> None:
    for spent, caught in ranks.run(check_unmatched_receive, in_block, world=world, group_timeout=60.0, timeout=30.0):
        assert spent < 5.0
        # The rank that gives up first has left the others, who then know that nobody can send.
        assert caught.kind == "CommunicatorClosed" or (world > 1 and caught.kind == "PeerFailure"), caught
        assert "recei" in caught.text or "recv" in caught.text, caught.text


def check_receive_in_progress(rank: int, world: int) -> bool:
    """Nobody waits for the works, but the data is on its way."""
    tensor = torch.full((32 << 20,), float(rank))
    work = dist.isend(tensor, 1) if rank == 0 else dist.irecv(tensor, 0)
    assert work is not None
    dist.destroy_process_group()
    return bool(work.is_success() and tensor[-1] == 0.0)


@only_ours
def test_a_receive_in_progress_is_completed_before_the_end(ranks: Ranks) -> None:
    assert ranks.run(check_receive_in_progress, world=2, timeout=30.0) == [True, True]


def check_again_and_again(rank: int, world: int, rounds: int) -> None:
    for number in range(rounds):
        context().init(f"round {number}")
        tensor = torch.ones(10)
        dist.all_reduce(tensor)
        assert tensor[0] == world
        dist.destroy_process_group()


@pytest.mark.parametrize("world", [1, 2, 4])
def test_groups_can_be_made_one_after_the_other(ranks: Ranks, world: int) -> None:
    ranks.run(check_again_and_again, 10, world=world, init=False)


def check_abort_unblocks(rank: int, world: int) -> Caught | None:
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        context().await_signpost("aborted")
        return None
    work = dist.all_reduce(torch.ones(10), async_op=True)
    assert work is not None
    _get_default_group().abort()
    caught = needed(work.wait)
    context().signpost("aborted")
    return caught


@only_ours
def test_abort_ends_what_is_in_flight(ranks: Ranks) -> None:
    caught = ranks.run(check_abort_unblocks, world=2, fresh=True)[0]
    assert caught.kind in ("CommunicatorClosed", "CommunicatorRevoked"), caught


def check_a_peer_that_closes(rank: int, world: int) -> Caught | None:
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        dist.destroy_process_group()
        context().await_signpost("raised")
        return None
    caught = needed(lambda: dist.all_reduce(torch.ones(1)))
    context().signpost("raised")
    return caught


@only_ours
def test_a_peer_that_closes_early_is_named(ranks: Ranks) -> None:
    caught = ranks.run(check_a_peer_that_closes, world=2, timeout=30.0, group_timeout=10.0)[0]
    assert caught.ranks == (1,), caught
    assert caught.seconds() < 5.0


class _Squares(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index * index)


def check_forked_children(rank: int, world: int) -> None:
    """Children that leave by os._exit, by Python's own end, and as workers of a DataLoader."""
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(3)]
    for leave in (os._exit, sys.exit):
        child = os.fork()
        if child == 0:
            try:
                leave(0)
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        assert tensor[0] == world
    loader = DataLoader(_Squares(), num_workers=2, multiprocessing_context="fork")
    for value in loader:
        dist.all_reduce(value)
    for work in works:
        assert work is not None
        work.wait()
    dist.barrier()


@pytest.mark.parametrize("world", [2, 3])
def test_forked_children_do_no_harm(ranks: Ranks, world: int) -> None:
    ranks.run(check_forked_children, world=world, fresh=True)


def check_child_that_calls(rank: int, world: int) -> int:
    """A forked child that uses its parent's group gets an error; it is no member."""
    dist.all_reduce(torch.ones(1))
    child = os.fork()
    if child == 0:
        try:
            needed(lambda: dist.all_reduce(torch.ones(1)))
        except AssertionError:
            os._exit(1)
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor[0] == world
    return status


@only_ours
def test_a_forked_child_is_no_member(ranks: Ranks) -> None:
    assert ranks.run(check_child_that_calls, world=2, fresh=True, timeout=20.0) == [0, 0]


_LEAVES_WITHOUT_DESTROYING = """
import os, sys, threading, time, torch, torch.distributed as dist
backend, rank, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if backend == "nccl2":
    import pycomms
dist.init_process_group(backend, init_method=f"file://{path}", rank=rank, world_size=2)
tensors = [torch.ones(10) for _ in range(3)]
works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
for work in works:
    work.wait()
assert all(tensor[0] == 2 for tensor in tensors), tensors
dist.barrier()
"""

# What is still to be called when the interpreter ends.
_PENDING = {
    "nothing": "",
    "then of a receive": """
dist.irecv(torch.zeros(3), 1 - rank).get_future().then(lambda future: print("called"))
""",
    "then of a collective": """
if rank == 0:
    dist.all_reduce(torch.zeros(3), async_op=True).get_future().then(lambda future: print("called"))
else:
    print("called")
""",
    "a callback that is running": """
begun, never = threading.Event(), threading.Event()
def callback(future):
    begun.set()
    never.wait(0.5)
    print("called")
dist.all_reduce(torch.zeros(3), async_op=True).get_future().then(callback)
assert begun.wait(10.0)
""",
    "completion hook": """
dist.distributed_c10d._get_default_group()._register_on_completion_hook(lambda info: print("called"))
dist.irecv(torch.zeros(3), 1 - rank)
""",
    "a forked child's": """
work = dist.irecv(torch.zeros(3), 1 - rank)
child = os.fork()
if child == 0:
    sys.exit()  # in the child nobody will ever end it
begun = time.monotonic()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert time.monotonic() - begun < 5.0
print("called")
""",
    "sparse": """
if rank == 0:
    tensor = torch.ones(4).to_sparse()
    dist.all_reduce(tensor, async_op=True).get_future().then(lambda future: print("called"))
else:
    print("called")
""",
}


_only_ours = pytest.mark.nccl2_only("gloo aborts the process, or has no such callback")


@pytest.mark.parametrize(
    "pending", [pytest.param(name, marks=() if name == "nothing" else _only_ours) for name in _PENDING]
)
def test_a_process_may_end_without_destroying(ranks: Ranks, tmp_path: Path, pending: str, warm_python: str) -> None:
    """Interpreters of their own, because only those run Python's and C++'s ends."""
    python = sys.executable if pending == "nothing" else warm_python
    script = tmp_path / "leaves.py"
    script.write_text(_LEAVES_WITHOUT_DESTROYING + _PENDING[pending])
    store = str(tmp_path / "store")
    arguments = [[str(script), ranks.backend, str(rank), store] for rank in range(2)]
    for ended in run_interpreters(arguments, timeout=60.0, python=python):
        assert ended.returncode == 0, ended.errors
        if pending != "nothing":
            assert "called" in ended.output
