"""Models sharded by FSDP2 in two replicas of two members each: a replica fails as a whole, the other one trains on."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, cast

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from pycomms import ft
from pycomms.process_group._tables import forget

from ._job import Job, steps_of
from ._sharded import SHARDS, Plan, follow, shard, train
from ._training import network

MOMENTS = ("forward", "in_backward", "backward", "before_vote", "after_vote")


def check(job: Job, plan: Plan, survivors: int, died_behind: dict[int, list[int]] | None = None) -> None:
    by_step = steps_of(job)
    assert sorted(by_step) == list(range(1, plan.until + 1))
    slots_of = {step: sorted(of_slot) for step, of_slot in by_step.items()}
    compare(job, plan, by_step, {**slots_of, **(died_behind or {})}, survivors)


def compare(
    job: Job, plan: Plan, by_step: dict[int, dict[int, Any]], slots_of: dict[int, list[int]], survivors: int
) -> None:
    """The losses and weights are those of one process that follows the same members, bit for bit.

    Args:
        by_step: what `steps_of` gives.
        slots_of: who took part in each step, from the first on.
    """
    losses, weights = follow(plan, slots_of)
    for step, of_slot in by_step.items():
        assert {world for world, _, _ in of_slot.values()} == {len(slots_of[step])}
        for slot, (_, loss, _) in of_slot.items():
            assert loss == losses[step - 1][slot], f"step {step}, slot {slot}"
    told = [(one.slot, one.value) for one in job.said if one.what == "weights"]
    assert len(told) == survivors
    for slot, held in told:
        assert held == weights[slot % SHARDS], f"slot {slot}"


def recoveries_of(job: Job, slot: int) -> list[ft.Recovery]:
    return next(one.value for one in job.said if one.what == "recoveries" and one.slot == slot)


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_nobody_dies(optimizer: str) -> None:
    plan = Plan(until=6, optimizer=optimizer)
    with Job(train, plan, slots=4) as job:
        job.run()
    check(job, plan, survivors=4)
    assert not job.heard("reason")


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.parametrize("moment", MOMENTS)
def test_one_dies_and_its_replica_waits_until_another_has_come(moment: str) -> None:
    plan = Plan(deaths=(("m2", 4, moment),), holds=(6,))
    with Job(train, plan, slots=4) as job:
        job.run_until(job.has_heard("holding", 2))
        job.start(1)
        job.run()
    # Behind the vote the step is committed: the dead member took part in it, and has not said so.
    check(job, plan, survivors=4, died_behind={4: [0, 1, 2, 3]} if moment == "after_vote" else None)
    by_step = steps_of(job)
    assert sorted(by_step[5]) == [2, 3]
    assert sorted(by_step[8]) == [0, 1, 2, 3]
    lost = [step for step, is_committed, _ in job.heard("reason") if not is_committed]
    assert all(step in (4, 5) for step in lost)
    for slot, restores in ((0, True), (1, True), (2, False), (3, False)):
        assert recoveries_of(job, slot)[-1].restored is restores, f"slot {slot}"


@pytest.mark.needs_torch("2.14", "elastic sessions")
def test_a_replica_that_dies_as_a_whole_comes_back() -> None:
    plan = Plan(deaths=(("m3", 3, "forward"), ("m4", 3, "forward")), holds=(5, 7))
    with Job(train, plan, slots=4) as job:
        job.run_until(job.has_heard("holding", 2))
        job.start(2)
        job.start(3)
        job.run()
    check(job, plan, survivors=4)
    assert sorted(steps_of(job)[4]) == [0, 1]
    assert sorted(steps_of(job)[plan.until]) == [0, 1, 2, 3]


@pytest.mark.needs_torch("2.14", "elastic sessions")
def test_no_replica_is_whole_and_yet_nothing_is_lost() -> None:
    """Each shard has one survivor: they wait, and those who come fetch from them."""
    plan = Plan(until=7, deaths=(("m2", 4, "backward"), ("m3", 4, "before_vote")))
    with Job(train, plan, slots=4) as job:
        job.run_until(lambda: len(job.exits) == 2)
        job.start(1)
        job.start(2)
        job.run()
    check(job, plan, survivors=4)
    assert all(sorted(of_slot) == [0, 1, 2, 3] for of_slot in steps_of(job).values())


@pytest.mark.needs_torch("2.14", "elastic sessions")
def test_a_shard_that_nobody_has_any_more_ends_the_training() -> None:
    plan = Plan(deaths=(("m2", 4, "forward"), ("m4", 4, "forward")))
    with Job(train, plan, slots=4) as job:
        job.run()
    ends = job.heard("ended")
    assert len(ends) == 2
    assert all(isinstance(one, ft.NothingToRestoreFrom) for one in ends)
    assert all("shard 1 of 2" in str(one) for one in ends)


@pytest.mark.needs_torch("2.14", "elastic sessions")
def test_a_replica_that_waits_ends_when_the_others_are_done() -> None:
    plan = Plan(until=6, deaths=(("m1", 4, "forward"),))
    with Job(train, plan, slots=4) as job:
        job.run()
    check(job, plan, survivors=2)
    (end,) = job.heard("ended")
    assert isinstance(end, ft.JobEnded)


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.parametrize("moment", ["in_backward", "before_vote", "after_vote"])
def test_the_batch_stays_where_the_world_is_constant(moment: str) -> None:
    """Of 6 micro-batches one replica does two for each member and the other one, until one does all."""
    plan = Plan(until=8, micro_batches=6, dropout=False, deaths=(("m4", 4, moment),))
    with Job(train, plan, slots=4) as job:
        job.run()
    check(job, plan, survivors=2, died_behind={4: [0, 1, 2, 3]} if moment == "after_vote" else None)
    by_step = steps_of(job)
    assert {slot: len(used) for slot, (_, _, used) in by_step[3].items()} == {0: 8, 1: 8, 2: 4, 3: 4}
    assert {slot: len(used) for slot, (_, _, used) in by_step[5].items()} == {0: 12, 1: 12}
    undisturbed, _ = follow(plan, dict.fromkeys(range(1, 9), range(4)))
    for step in (1, 2, 3, 5, 6, 7, 8):
        assert mean(by_step[step][slot][1] for slot in by_step[step]) == pytest.approx(
            mean(undisturbed[step - 1].values()), rel=1e-4
        )


def mean(of_members: Iterable[list[float]]) -> float:
    losses = [loss for one in of_members for loss in one]
    return sum(losses) / len(losses)


@pytest.mark.needs_torch("2.13", "reset_iter_state of FSDP2")
@pytest.mark.parametrize("accumulates", [False, True])
def test_gradients_of_a_backward_pass_that_has_failed_are_gone(accumulates: bool) -> None:
    """Those of the batch norm are there when the pass fails, and not reduced."""
    torch.manual_seed(1)
    plain = network(False)
    replica = ft.Replica(1, slot=0)
    model = copy.deepcopy(plain)
    shard(model, replica)
    first = next(model.children())
    replica.bind(model, None, timedelta(seconds=1))
    inputs, wanted = torch.randn(4, 8), torch.randn(4, 4)
    nn.functional.mse_loss(plain(inputs), wanted).backward()

    if accumulates:
        cast("FSDPModule", model).set_requires_gradient_sync(False)
        nn.functional.mse_loss(model(inputs), wanted).backward()
        cast("FSDPModule", model).set_requires_gradient_sync(True)
    failing = first.register_forward_hook(lambda _, __, found: found.register_hook(_raise) and None)
    with pytest.raises(ZeroDivisionError):
        nn.functional.mse_loss(model(inputs), wanted).backward()
    failing.remove()
    replica.put_in_order()
    model.zero_grad()
    nn.functional.mse_loss(model(inputs), wanted).backward()
    for (name, one), expected in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert isinstance(one.grad, DTensor)
        assert expected.grad is not None
        assert torch.equal(one.grad.to_local(), expected.grad), name
    for group in (replica.group, replica.peers):
        forget(group)


def _raise(_: torch.Tensor) -> None:
    raise ZeroDivisionError


@pytest.mark.needs_torch("2.13", "reset_iter_state of FSDP2")
def test_what_does_not_go_with_a_replica_is_refused() -> None:
    with pytest.raises(ValueError, match="shards is 0"):
        ft.Replica(0)
    replica = ft.Replica(2, slot=5)
    assert (replica.shard, replica.mesh.size(), replica.mesh.get_coordinate()) == (1, 2, (1,))
    with pytest.raises(ValueError, match="weight, bias: not sharded"):
        replica.bind(nn.Linear(2, 2), None, timedelta(seconds=1))
    with pytest.raises(ValueError, match="micro_batches is 3, expected a multiple of the replica's 2 shards"):
        replica.bind(nn.Linear(2, 2), 3, timedelta(seconds=1))
    for group in (replica.group, replica.peers):
        forget(group)
