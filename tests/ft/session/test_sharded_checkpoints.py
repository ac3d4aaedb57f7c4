"""Checkpoints of a sharded model: a replica writes one together, for when nobody has some shard any more."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from pycomms import ft
from pycomms.ft._checkpoint_parts import Part
from pycomms.ft._shards import like, local_of
from pycomms.ft._state import Stateful

from ._job import PRELOADED, Job
from ._sharded import Plan, shard, train
from ._training import network
from .test_replicas import compare, recoveries_of

ALL = [0, 1, 2, 3]
SHARDS_LOADING = (0, 1, 2, 3, 4)  # 0: not sharded
LONG = timedelta(seconds=60)


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.parametrize("moment", ["forward", "in_backward", "before_vote", "after_vote"])
def test_a_shard_that_nobody_has_any_more_is_in_the_checkpoint(tmp_path: Path, moment: str) -> None:
    """Both who have shard 1 die in step 8; one of them is replaced, and its replica goes on from step 6."""
    plan = Plan(until=12, folder=str(tmp_path), deaths=(("m2", 8, moment), ("m4", 8, moment)), holds=(10,))
    with Job(train, plan, slots=4) as job:
        job.run_until(lambda: len(job.exits) == 2)
        job.start(1)
        job.run_until(job.has_heard("holding", 2))
        job.start(3)
        job.run()
    assert not job.heard("ended")
    by_step = last_steps_of(job)
    for step in (7, 8, 9, 10):
        by_step[step] = {slot: by_step[step][slot] for slot in (0, 1)}  # and what the other did before is gone
    assert sorted(by_step[12]) == ALL
    compare(job, plan, by_step, {step: sorted(of_slot) for step, of_slot in by_step.items()}, survivors=4)
    assert 6 in [one.step for one in recoveries_of(job, 0)]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["step-12", "step-9"]


@pytest.mark.needs_torch("2.14", "elastic sessions")
def test_all_die_and_the_next_job_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    deaths = tuple((f"m{one}", 8, "forward") for one in (1, 2, 3, 4))
    with Job(train, Plan(folder=str(tmp_path), deaths=deaths), slots=4) as job:
        job.run()
    assert set(job.exits.values()) == {-9}
    assert ft.Checkpoints(tmp_path, every=3).newest() == 6
    check_next_job(tmp_path, last=6)


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.parametrize(("where", "nonces"), [("part", ("m2",)), ("joining", ("m1", "m2"))])
def test_a_death_while_it_is_written_leaves_the_one_before(tmp_path: Path, where: str, nonces: tuple[str, ...]) -> None:
    plan = Plan(folder=str(tmp_path), dies_saving=(6, nonces, where), holds=(7,))
    with Job(train, plan, slots=4) as job:
        job.run_until(job.has_heard("holding", 2))
        (dead,) = job.exits
        assert dead.nonce in nonces
        assert ft.Checkpoints(tmp_path, every=3).newest() == 3
        for slot in ALL:
            if dead.nonce != f"m{slot + 1}":
                job.kill(slot)
        job.run()
    check_next_job(tmp_path, last=3)


def check_next_job(folder: Path, last: int) -> None:
    """It begins behind the last checkpoint, and comes to what a job comes to that nothing happens to."""
    plan = Plan(folder=str(folder))
    with Job(train, plan, slots=4) as job:
        job.run()
    assert set(job.exits.values()) == {0}
    by_step = last_steps_of(job)
    assert sorted(by_step) == list(range(last + 1, plan.until + 1))
    compare(job, plan, by_step, dict.fromkeys(range(1, plan.until + 1), ALL), survivors=4)
    assert sorted(one.name for one in folder.iterdir()) == ["step-6", "step-9"]


def last_steps_of(job: Job) -> dict[int, dict[int, Any]]:
    """As `steps_of`, where steps are done again behind a checkpoint: what each slot has said last."""
    found: dict[int, dict[int, Any]] = {}
    for one in job.said:
        if one.what == "step":
            step, *rest = one.value
            found.setdefault(step, {})[one.slot] = tuple(rest)
    return dict(sorted(found.items()))


def parts_of(shards: int, shard_: int) -> dict[str, Stateful]:
    """Of a training with one step behind it, all shards alike; shards 0: not sharded."""
    model = network(False)
    if shards:
        replica = ft.Replica(shards, slot=shard_)
        shard(model, replica)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for parameter, whole in zip(model.parameters(), network(False).parameters(), strict=True):
        own = whole.detach()
        if isinstance(parameter, DTensor):
            own = own.chunk(shards)[shard_] if shard_ < len(own.chunk(shards)) else own[:0]
        parameter.grad = like(parameter, own + 1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    optimizer.step()
    scheduler.step()
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler}


def held(parts: dict[str, Stateful]) -> list[Tensor]:
    """Parameters and the optimizer's moments, as far as they are here."""
    model, optimizer = parts["model"], parts["optimizer"]
    assert isinstance(model, nn.Module)
    assert isinstance(optimizer, torch.optim.Adam)
    return [
        local_of(one).clone()
        for parameter in model.parameters()
        for one in (parameter, optimizer.state[parameter]["exp_avg"], optimizer.state[parameter]["exp_avg_sq"])
    ]


def save(folder: Path, step: int, part: Part, parts: dict[str, Stateful]) -> None:
    checkpoints = ft.Checkpoints(folder, every=5)
    checkpoints.save(step, parts, part)
    checkpoints.wait(LONG)


def write(folder: Path, index: int) -> None:
    save(folder, 5, Part(index=index, of=3, tag="a"), parts_of(3, index))


def load_each(folder: Path, shard_: int) -> None:
    for shards in SHARDS_LOADING:
        if shard_ < max(1, shards):
            load(folder, shards, shard_)


def load(folder: Path, shards: int, shard_: int) -> None:
    """What was there before, and is then gone, is there again."""
    parts = parts_of(shards, shard_)
    expected = held(parts)
    model, optimizer, scheduler = parts["model"], parts["optimizer"], parts["scheduler"]
    assert isinstance(model, nn.Module)
    assert isinstance(optimizer, torch.optim.Adam)
    assert isinstance(scheduler, torch.optim.lr_scheduler.StepLR)
    with torch.no_grad():
        for parameter in model.parameters():
            for one in (parameter, *optimizer.state[parameter].values()):
                one.zero_()
    scheduler.step()
    ft.Checkpoints(folder, every=5).load(5, parts)
    for one, wanted in zip(held(parts), expected, strict=True):
        assert torch.equal(one, wanted)
    assert {int(one["step"]) for one in optimizer.state.values()} == {1}
    assert scheduler.last_epoch == 1


@pytest.fixture(scope="module")
def members() -> Iterator[Pool]:
    """A process for each, for torch takes meshes of the same shape for the same one, whoever's they are."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    with context.Pool(1, maxtasksperchild=1) as pool:
        yield pool


def run(members: Pool, function: Callable[..., None], *args: Any) -> None:
    members.apply_async(function, args).get(LONG.total_seconds())


@pytest.mark.needs_torch("2.13", "reset_iter_state of FSDP2")
def test_another_number_of_shards_can_load_it(tmp_path: Path, members: Pool) -> None:
    """Of three parts, the last of which has nothing of a row of four."""
    checkpoints = ft.Checkpoints(tmp_path, every=5)
    for index in (2, 0, 1):
        assert checkpoints.newest() is None
        run(members, write, tmp_path, index)
    assert checkpoints.newest() == 5
    for shard_ in range(max(SHARDS_LOADING)):
        run(members, load_each, tmp_path, shard_)


@pytest.mark.needs_torch("2.13", "reset_iter_state of FSDP2")
def test_a_checkpoint_that_is_not_sharded_can_be_loaded_with_shards(tmp_path: Path, members: Pool) -> None:
    save(tmp_path, 5, Part(), parts_of(0, 0))
    for shard_ in (0, 1):
        run(members, load, tmp_path, 2, shard_)


def test_a_part_of_other_members_does_not_make_it_whole(tmp_path: Path) -> None:
    for index, tag in ((0, "a"), (1, "b")):
        save(tmp_path, 5, Part(index=index, of=2, tag=tag), parts_of(0, 0))
    assert ft.Checkpoints(tmp_path, every=5).newest() is None
    assert [one.name for one in tmp_path.iterdir()] == ["writing-5-b"]


def test_a_checkpoint_that_one_has_left_out_is_cleared_away(tmp_path: Path) -> None:
    for step, index in ((5, 0), (10, 0), (10, 1)):
        save(tmp_path, step, Part(index=index, of=2, tag="a"), parts_of(0, 0))
    assert [one.name for one in tmp_path.iterdir()] == ["step-10"]
