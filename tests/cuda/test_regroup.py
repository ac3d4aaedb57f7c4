"""Groups with a communicator on a GPU that are regrouped: it follows, of the old one where NCCL can do that."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.multirank._errors import catch, needed
from tests.multirank._harness import Ranks, context, register_backend
from tests.multirank._holdings import Holdings

from ._group import gpu_backend, meet, nccl

WAIT = timedelta(seconds=30)
_TIMES = 30


def _share_handle(name: str, rank: int) -> None:
    context().store("handles").set(f"{name}/{rank}", gpu_backend().regroup_handle())


def _handles(name: str, ranks: list[int]) -> list[str]:
    store = context().store("handles")
    return [store.get(f"{name}/{rank}").decode() for rank in ranks]


def _regroup(name: str, rank: int, members: list[int], uuid: int) -> None:
    """members: ranks of the run, by their new ranks."""
    _share_handle(name, rank)
    gpu_backend().regroup(uuid=uuid, handles=_handles(name, members), timeout=WAIT).wait()
    assert (dist.get_rank(), dist.get_world_size()) == (members.index(rank), len(members))
    assert gpu_backend()._get_sequence_number_for_group() == 0


def _check(world: int) -> None:
    for device in ("cuda", "cpu"):
        tensor = torch.full((4,), float(dist.get_rank() + 1), device=device)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [world * (world + 1) / 2] * 4, device
        pieces = [torch.empty(2, device=device) for _ in range(world)]
        dist.all_gather(pieces, torch.full((2,), float(dist.get_rank()), device=device))
        assert [piece.tolist() for piece in pieces] == [[float(r)] * 2 for r in range(world)], device
    dist.barrier()


def _begin(rank: int, members: list[int]) -> None:
    """A group of these ranks of the run, this one among them, that knows of no others."""
    register_backend()
    store = context().store(f"of {members[0]}")
    dist.init_process_group("nccl2", store=store, rank=members.index(rank), world_size=len(members), timeout=WAIT)


def _calls() -> tuple[int, int, int]:
    calls = nccl().calls
    return calls("ncclCommSplit"), calls("ncclCommShrink"), calls("ncclCommGrow")


def change_members(rank: int, world: int, old: list[int], new: list[int], split: int, shrink: int, grow: int) -> None:
    _begin(rank, old if rank in old else [rank])
    if rank in old:
        _check(len(old))
        torch.cuda.synchronize()
    meet("begun", rank, world)
    if rank in new:
        _regroup("first", rank, new, 1)
        before = _calls()
        assert before == (split if rank in old else 0, shrink if rank in old else 0, grow), before
        _check(len(new))
        assert _calls() == before
    meet("done", rank, world)


@pytest.mark.parametrize(
    ("world", "old", "new", "split", "shrink", "grow"),
    [
        (4, [0, 1, 2, 3], [0, 1, 2], 0, 1, 0),  # the last goes
        (4, [0, 1, 2, 3], [0, 2, 3], 0, 1, 0),
        (4, [0, 1, 2, 3], [1, 2, 3], 0, 1, 0),  # the first goes
        (4, [0, 1, 2, 3], [1, 3], 0, 1, 0),
        (4, [0, 1, 2, 3], [2], 0, 1, 0),
        (2, [0, 1], [1], 0, 1, 0),
        (4, [0, 1, 2, 3], [0, 1, 2, 3], 1, 0, 0),  # the same again
        (4, [0, 1, 2, 3], [3, 1, 0, 2], 1, 0, 0),  # another order
        (2, [0, 1], [1, 0], 1, 0, 0),
        (4, [0, 1], [0, 1, 2], 0, 0, 1),  # one comes
        (4, [0, 1], [0, 1, 2, 3], 0, 0, 1),
        (4, [0, 1, 2], [0, 2, 3], 0, 1, 1),  # one goes and one comes
        (4, [0, 1], [1, 0, 2], 1, 0, 1),  # another order and one comes
        (4, [0, 1], [2, 0, 1], 0, 0, 0),  # the newcomer is the first: NCCL has no way for that
        (4, [0, 1, 2, 3], [3, 0], 0, 0, 0),
        (4, [0], [0, 1, 2, 3], 0, 0, 0),  # 1 -> n
        (2, [0], [0, 1], 0, 0, 0),
        (4, [0, 1], [2, 3], 0, 0, 0),  # all new
    ],
)
def test_members_change(
    ranks: Ranks, world: int, old: list[int], new: list[int], split: int, shrink: int, grow: int
) -> None:
    ranks.run(change_members, old, new, split, shrink, grow, world=world, init=False, fresh=True)


def merge(rank: int, world: int) -> None:
    """Two groups that know nothing of each other, with stores of their own."""
    _begin(rank, [0, 1] if rank < 2 else [2, 3])
    _check(2)
    _regroup("merge", rank, [0, 1, 2, 3], 1)
    _check(4)


def test_two_groups_become_one(ranks: Ranks) -> None:
    ranks.run(merge, world=4, init=False, fresh=True)


def again_and_again(rank: int, world: int) -> tuple[Holdings, Holdings]:
    """Returns what the process held after a few times, and at last."""
    _check(world)
    members = list(range(world))
    early = None
    for uuid in range(_TIMES):
        members = members[1:] + members[:1]
        _regroup(f"{uuid}", rank, members, uuid)
        _check(world)
        assert gpu_backend().generation == uuid + 1
        assert nccl().live().communicators <= 2 * world  # the old one may be about to end
        early = Holdings.now() if uuid == _TIMES // 3 else early
    assert early is not None
    return early, Holdings.now()


@pytest.mark.parametrize("world", [2, 4])
def test_again_and_again(ranks: Ranks, world: int) -> None:
    for early, late in ranks.run(again_and_again, world=world, fresh=True):
        # The last regroup's thread may be about to end.
        assert late.threads <= early.threads + 2, (early, late)
        assert late.descriptors <= early.descriptors + 2, (early, late)


def _reduce_for_ever() -> None:
    """On a GPU an error comes with a later call."""
    tensor = torch.ones(1 << 16, device="cuda")
    while True:
        dist.all_reduce(tensor)
        torch.cuda.synchronize()


def killed(rank: int, world: int, victim: int) -> None:
    _check(world)
    _share_handle("all", rank)
    meet("ready", rank, world)
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    caught = needed(_reduce_for_ever)
    assert (caught.kind, caught.ranks) == ("PeerFailure", (victim,)), caught
    rest = [one for one in range(world) if one != victim]
    gpu_backend().regroup(uuid=7, handles=_handles("all", rest), timeout=WAIT).wait()
    assert (dist.get_rank(), dist.get_world_size()) == (rest.index(rank), world - 1)
    assert _calls() == (0, 1, 0)
    _check(world - 1)
    assert nccl().calls("ncclCommInitRankConfig") == 1


@pytest.mark.parametrize(("world", "victim"), [(2, 0), (2, 1), (4, 0), (4, 2), (4, 3)])
def test_the_survivors_of_a_killed_rank_go_on(ranks: Ranks, world: int, victim: int) -> None:
    with ranks.start(killed, victim, world=world, fresh=True) as run:
        run.finish(died={victim})


def in_flight(rank: int, world: int) -> None:
    """What is in flight ends cancelled, and none of it reports success."""
    import pycomms

    _check(world)
    works: list[Any] = []
    if rank != 0:  # rank 0 does not come
        works = [dist.all_reduce(torch.ones(1 << 16, device="cuda"), async_op=True) for _ in range(3)]
    meet("issued", rank, world)
    _regroup("flight", rank, list(range(world)), 1)
    for work in works:
        with pytest.raises(pycomms.CommunicatorRevoked):
            work.wait(timedelta(seconds=10))
        assert not work.is_success()
    _check(world)


@pytest.mark.parametrize("world", [2, 4])
def test_what_is_in_flight_is_cancelled(ranks: Ranks, world: int) -> None:
    ranks.run(in_flight, world=world, fresh=True)


def after_timeout(rank: int, world: int) -> None:
    _check(world)
    if rank == 0:
        meet("late", rank, world)
    else:
        work: Any = dist.all_reduce(torch.ones(4, device="cuda"), async_op=True)
        assert needed(lambda: work.wait(timedelta(seconds=20))).kind in ("CollectiveTimeout", "CommunicatorRevoked")
        meet("late", rank, world)
    _regroup("late", rank, list(range(world)), 1)
    _check(world)


def test_after_a_timeout(ranks: Ranks) -> None:
    ranks.run(after_timeout, world=2, fresh=True, group_timeout=1.0)


def train(rank: int, world: int) -> None:
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 2).cuda())

    def step(size: int) -> None:
        model.zero_grad()
        model(torch.full((3, 4), float(dist.get_rank() + 1), device="cuda")).sum().backward()
        mean = sum(range(1, size + 1)) / size
        weight = model.module.weight
        assert weight.grad is not None
        assert torch.allclose(weight.grad.cpu(), torch.full((2, 4), 3.0 * mean)), weight.grad

    step(world)
    meet("trained", rank, world)
    if rank != 1:
        _regroup("train", rank, [one for one in range(world) if one != 1], 1)
        step(world - 1)
        step(world - 1)
    meet("over", rank, world)


def test_ddp_goes_on_with_the_right_averages(ranks: Ranks) -> None:
    ranks.run(train, world=4, fresh=True)


def dies_while_regrouping(rank: int, world: int, victim: int, point: str) -> None:
    """All others learn of it, and go on with another try."""
    from pycomms import _C

    _check(world)
    torch.cuda.synchronize()
    if rank == victim:
        _C.set_regroup_probe(lambda reached: os.kill(os.getpid(), signal.SIGKILL) if reached == point else None)
    _share_handle("first", rank)
    handles = _handles("first", list(range(world)))
    caught = catch(lambda: gpu_backend().regroup(uuid=1, handles=handles, timeout=WAIT).wait())
    if caught is None:
        assert point == "committed"
        caught = needed(_reduce_for_ever)
    assert caught.kind in ("PeerFailure", "CommunicatorRevoked"), caught
    rest = [one for one in range(world) if one != victim]
    _regroup("second", rank, rest, 2)
    _check(world - 1)


@pytest.mark.parametrize("point", ["before_prepare", "prepared", "committed"])
@pytest.mark.parametrize(("world", "victim"), [(2, 1), (4, 0), (4, 2)])
def test_a_member_dies_while_regrouping(ranks: Ranks, world: int, victim: int, point: str) -> None:
    with ranks.start(dies_while_regrouping, victim, point, world=world, fresh=True) as run:
        run.finish(died={victim})


def after_abort(rank: int, world: int) -> None:
    _check(world)
    meet("aborting", rank, world)
    if rank == 0:
        gpu_backend().abort()
    needed(lambda: _check(world))
    _regroup("aborted", rank, list(range(world)), 1)
    _check(world)


@pytest.mark.parametrize("world", [2, 4])
def test_after_an_abort(ranks: Ranks, world: int) -> None:
    ranks.run(after_abort, world=world, fresh=True)


def after_mismatch(rank: int, world: int) -> None:
    _check(world)
    assert needed(lambda: dist.all_reduce(torch.ones(rank + 1))).kind == "CollectiveMismatch"
    _regroup("differ", rank, list(range(world)), 1)
    _check(world)


def test_after_a_mismatch(ranks: Ranks) -> None:
    ranks.run(after_mismatch, world=2, fresh=True)


def train_sharded(rank: int, world: int) -> None:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4).cuda()
    fully_shard(model)

    def step() -> float:
        model.zero_grad()
        model(torch.full((3, 8), float(dist.get_rank() + 1), device="cuda")).sum().backward()
        gradient: Any = model.weight.grad
        return float(gradient.full_tensor().sum())

    expected = step()
    meet("trained", rank, world)
    _regroup("same", rank, list(range(world)), 1)
    assert step() == expected


def test_fsdp2_goes_on(ranks: Ranks) -> None:
    ranks.run(train_sharded, world=2, fresh=True)
