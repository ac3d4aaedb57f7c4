"""What is left of a training when all its members are gone."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import nn

from pycomms import ft
from pycomms.ft._state import Stateful

from ._job import Job, steps_of
from ._reference import follow
from ._training import Plan, train
from .test_session import check

SLOTS = [0, 1, 2]


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.parametrize("ddp", [False, True], ids=["plain", "ddp"])
def test_all_die_and_the_next_job_goes_on_from_the_checkpoint(tmp_path: Path, ddp: bool) -> None:
    deaths = tuple((f"m{one}", 8, "forward") for one in (1, 2, 3))
    with Job(train, Plan(until=12, ddp=ddp, folder=str(tmp_path), deaths=deaths), slots=3) as job:
        job.run()
    assert set(job.exits.values()) == {-9}
    assert ft.Checkpoints(tmp_path, every=3).newest() == 6
    plan = Plan(until=12, ddp=ddp, folder=str(tmp_path))
    with Job(train, plan, slots=3) as job:
        job.run()
    assert set(job.exits.values()) == {0}
    assert sorted(steps_of(job)) == list(range(7, 13))
    losses, final = follow(plan, dict.fromkeys(range(1, 13), SLOTS))
    for step, of_slot in steps_of(job).items():
        assert [of_slot[slot][1] for slot in SLOTS] == losses[step - 1]
    assert job.heard("weights") == [final] * 3
    ((first, *_),) = {tuple(ledger) for ledger in job.heard("ledger")}  # one for all, from the first step on
    assert first[0] == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["step-12", "step-9"]


@pytest.mark.needs_torch("2.14", "elastic sessions")
def test_a_newcomer_reads_no_checkpoint_where_others_have_more(tmp_path: Path) -> None:
    plan = Plan(until=10, folder=str(tmp_path), deaths=(("m2", 4, "backward"),), holds=(7,))
    with Job(train, plan, slots=3) as job:
        job.run_until(job.has_heard("holding", 2))
        (tmp_path / "step-6" / ".metadata").write_bytes(b"whoever reads this fails")
        job.start(1)
        job.run()
    check(job, plan, survivors=3)


def parts_of(width: int) -> dict[str, Stateful]:
    torch.manual_seed(width)
    model = nn.Linear(width, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, width)).sum().backward()
    optimizer.step()
    return {"model": model, "optimizer": optimizer, "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3)}


@pytest.fixture
def written(tmp_path: Path) -> ft.Checkpoints:
    """With checkpoints of steps 5 and 10."""
    checkpoints = ft.Checkpoints(tmp_path, every=5)
    for step in (5, 10):
        checkpoints.save(step, parts_of(3))
        checkpoints.wait(timedelta(seconds=60))
    return checkpoints


def test_what_was_not_written_to_its_end_does_not_count(written: ft.Checkpoints) -> None:
    (written.path(10) / ".metadata").unlink()
    (written.folder / "step-x").mkdir()
    (written.folder / "writing-15-1").mkdir()
    assert written.newest() == 5
    assert ft.Checkpoints(written.folder / "missing", every=1).newest() is None


def test_a_checkpoint_of_another_model_is_refused(written: ft.Checkpoints) -> None:
    with pytest.raises(ft.StateMismatch, match=r"step-10 cannot be loaded: Size mismatch .* starts from step 5"):
        written.load(10, parts_of(4))
    without_scheduler = {name: part for name, part in parts_of(3).items() if name != "scheduler"}
    written.save(20, without_scheduler)
    written.wait(timedelta(seconds=60))
    with pytest.raises(ft.StateMismatch, match="it has no scheduler"):
        written.load(20, parts_of(3))


def test_a_disk_that_takes_nothing_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    checkpoints = ft.Checkpoints(tmp_path / "file" / "folder", every=1)
    checkpoints.save(1, parts_of(3))
    with pytest.warns(UserWarning, match="no checkpoint of step 1 in .*folder: .*Not a directory"):
        checkpoints.wait(timedelta(seconds=60))


@pytest.mark.parametrize("wrong", [{"every": 0}, {"every": 1, "keep": 0}])
def test_numbers_are_checked(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"Checkpoints: (every|keep) is 0"):
        ft.Checkpoints(tmp_path, **wrong)


def test_checkpoints_and_committed_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="committed is 3, but the checkpoints say"):
        ft.Session(nn.Linear(1, 1), committed=3, checkpoints=ft.Checkpoints(tmp_path, every=1))
