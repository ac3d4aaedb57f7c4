"""Groups that look for NaN, on CPU tensors: who raises, what it says, that nothing was sent, that the group goes on."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import torch
import torch.distributed as dist

import pycomms

from ._errors import Caught, catch, needed
from ._harness import Ranks
from ._not_finite import FLOATS, INF, NAN, SENDERS, can_hold, with_one


def _group(check: pycomms.NanCheck) -> Any:
    return dist.new_group(pg_options=pycomms.Options(nan_check=check), timeout=timedelta(seconds=20))


def _sum_works(rank: int, world: int, group: Any = None) -> None:
    x = torch.full((4,), float(rank + 1))
    dist.all_reduce(x, group=group)
    assert x.tolist() == [world * (world + 1) / 2] * 4


def find_on_both_ranks(rank: int, world: int) -> list[str]:
    failures: list[str] = []
    for which, values in ((pycomms.NanCheck.NAN, (NAN,)), (pycomms.NanCheck.NAN_AND_INF, (NAN, INF, -INF))):
        group = _group(which)
        for dtype in FLOATS:
            for value in values:
                if not can_hold(dtype, value):
                    continue
                x = with_one(value, dtype)
                caught = catch(partial(dist.all_gather, [x.clone() for _ in range(world)], x, group=group))
                if caught is None or caught.kind != "NotFinite":
                    failures.append(f"{which} {dtype} {value}: {caught}")
            clean = with_one(1.0, dtype)
            dist.all_gather([clean.clone() for _ in range(world)], clean, group=group)
        if which is pycomms.NanCheck.NAN:
            infinite = with_one(INF)
            dist.all_reduce(infinite, group=group)
        whole = torch.full((5,), -1)  # of floats these bits would be NaN
        dist.all_reduce(whole, group=group)
        dist.all_reduce(torch.ones(0), group=group)
        _sum_works(rank, world, group)
    return failures


def test_every_type(ranks: Ranks) -> None:
    assert ranks.run(find_on_both_ranks, world=2) == [[], []]


def find_in_each(rank: int, world: int, is_async: bool) -> list[str]:
    """Rank 0 has the NaN and raises; the others go on once it issues the operation after all."""
    group = _group(pycomms.NanCheck.NAN)
    how = {"async_op": is_async, "group": group}
    failures: list[str] = []
    for name, (issue, _) in SENDERS.items():
        before = group._get_backend(torch.device("cpu"))._get_sequence_number_for_group()
        if rank == 0:
            caught = needed(partial(issue, with_one(NAN), rank, world, **how))
            if (caught.kind, caught.op, caught.seq, caught.ranks) != ("NotFinite", name, before + 1, (0,)):
                failures.append(f"{name}: {caught}")
            if (
                "rank 0" not in caught.text
                or "holds NaN" not in caught.text
                or "Float of shape [101]" not in caught.text
            ):
                failures.append(f"{name}: {caught.text}")
        # What a rank only writes is not looked at.
        work = issue(with_one(1.0) if rank == 0 or SENDERS[name][1] else with_one(NAN), rank, world, **how)
        if work is not None:
            work.wait()
    _sum_works(rank, world, group)
    return failures


@pytest.mark.parametrize("is_async", [False, True])
def test_every_operation(ranks: Ranks, is_async: bool) -> None:
    assert ranks.run(find_in_each, is_async, world=2) == [[], []]


def send_and_receive(rank: int, world: int) -> Caught:
    """A receiver looks, too: the sender is in a group that does not."""
    looking, trusting = _group(pycomms.NanCheck.NAN), _group(pycomms.NanCheck.OFF)
    if rank == 0:
        caught = needed(lambda: dist.send(with_one(NAN), 1, looking))
        dist.send(with_one(2.0), 1, looking)
        dist.send(with_one(NAN), 1, trusting)
        return caught
    x = with_one(NAN)
    dist.recv(x, 0, looking)
    dist.recv(x, 0, trusting)
    assert x.isnan().any()
    return Caught("", (), "", (), "", 0, "", 0, 0)


def test_a_send(ranks: Ranks) -> None:
    sender, _ = ranks.run(send_and_receive, world=2)
    assert (sender.kind, sender.op, sender.seq) == ("NotFinite", "send", 0)


def receive(rank: int, world: int) -> list[Caught]:
    """The option is each rank's own: only the receiver looks."""
    check = pycomms.NanCheck.NAN if rank == 1 else pycomms.NanCheck.OFF
    group = _group(check)
    sizes = (101, 3_000_000)
    if rank == 0:
        for count in (*sizes, *sizes):
            dist.send(with_one(NAN, count=count), 1, group)
        dist.send(with_one(5.0), 1, group)
        return []
    caught = [needed(partial(dist.recv, torch.empty(count), 0, group)) for count in sizes]
    for count in sizes:
        work: Any = dist.irecv(torch.empty(count), 0, group)
        caught.append(needed(work.wait))
        assert not work.is_success()
    x = torch.empty(101)
    dist.recv(x, 0, group)
    assert x[50] == 5.0
    return caught


def test_what_a_receive_brings(ranks: Ranks) -> None:
    _, caught = ranks.run(receive, world=2)
    for one in caught:
        assert (one.kind, one.op, one.ranks) == ("NotFinite", "recv", (1,)), one
        assert "what it received" in one.text


def name_the_tensor(rank: int, world: int) -> list[Caught]:
    group = _group(pycomms.NanCheck.NAN)
    list_of = [torch.ones(3), with_one(NAN, count=6).reshape(2, 3).clone()]
    return [
        needed(lambda: dist.all_reduce_coalesced([torch.ones(2), with_one(NAN, count=6).reshape(2, 3)], group=group)),
        needed(lambda: dist.all_to_all([torch.empty(3), torch.empty(6)], list_of, group=group)),
    ]


def test_the_tensor_is_named(ranks: Ranks) -> None:
    for answers in ranks.run(name_the_tensor, world=2):
        for caught in answers:
            assert "tensor 1 of 2 of its input, Float of shape [2, 3], holds NaN" in caught.text


def in_a_block(rank: int, world: int) -> Caught:
    group = _group(pycomms.NanCheck.NAN)
    x, bad = torch.full((4,), float(rank)), with_one(NAN)
    group._start_coalescing(torch.device("cpu"))
    dist.broadcast(x, 1, group=group)
    caught = needed(lambda: dist.reduce(bad, 0, group=group))
    group._end_coalescing(torch.device("cpu")).wait()
    assert x.tolist() == [1.0] * 4
    _sum_works(rank, world, group)
    return caught


def test_in_a_block(ranks: Ranks) -> None:
    for caught in ranks.run(in_a_block, world=2):
        assert caught.kind == "NotFinite"


def inherit(rank: int, world: int) -> Caught:
    """Groups without options."""
    group: Any = dist.new_group(list(range(world)))
    return needed(lambda: dist.all_reduce(with_one(NAN), group=group))


@pytest.mark.parametrize("env", [{"TORCH_NCCL_NAN_CHECK": "1"}, {"PYCOMMS_NAN_CHECK": "nan"}])
def test_the_environment(ranks: Ranks, env: dict[str, str]) -> None:
    for caught in ranks.run(inherit, world=2, env=env):
        assert caught.kind == "NotFinite"


def sparse(rank: int, world: int) -> Caught:
    group = _group(pycomms.NanCheck.NAN)
    return needed(lambda: dist.all_reduce(with_one(NAN).to_sparse(), group=group))


def test_sparse(ranks: Ranks) -> None:
    for caught in ranks.run(sparse, world=2):
        assert caught.op == "all_reduce_sparse"
