"""Arguments that make no sense are refused where they are given: which, what it is, and what it should be."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest
import torch
from torch import nn

from pycomms import ft
from pycomms.ft._member import Membership


def session(*arguments: Any, **options: Any) -> ft.Session:
    """Of a membership that nobody asks anything."""
    return ft.Session(*arguments, membership=lambda timeouts, min_ranks: cast("Membership", object()), **options)


def model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(2, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"min_ranks": "2"}, "min_ranks is '2', expected an int"),
        ({"min_ranks": 0}, "min_ranks is 0, expected at least 1"),
        ({"committed": 2.5}, "committed is 2.5, expected an int"),
        ({"world": "constant", "micro_batches": "8"}, "micro_batches is '8', expected an int"),
        ({"seed": "x"}, "seed is 'x', expected an int"),
        ({"recovery_deadline": 5}, "recovery_deadline is 5, expected a timedelta"),
        ({"recovery_deadline": timedelta(days=1000)}, "recovery_deadline is 86400000.0 s, expected at most"),
        ({"sampler": [1, 2]}, r"sampler is \[1, 2\], expected an ft.ElasticSampler"),
        ({"state": [1]}, r"state is \[1\], expected a mapping"),
        ({"state": {"ema": 3}}, r"state\['ema'\] is 3, expected state_dict and load_state_dict"),
        ({"checkpoints": "folder"}, "checkpoints is 'folder', expected an ft.Checkpoints"),
        ({"replica": 2}, "replica is 2, expected an ft.Replica"),
        ({"outer": 3}, "outer is 3, expected an ft.LocalSGD or ft.DiLoCo"),
        ({"outer": ft.LocalSGD}, "outer is <class .*, expected an ft.LocalSGD or ft.DiLoCo"),
        ({"scheduler": 3}, "scheduler is 3, expected a scheduler"),
        ({"scaler": 3}, "scaler is 3, expected a torch.amp.GradScaler"),
        ({"on_commit": 3}, "on_commit is 3, expected a function"),
        ({"on_recovery": 3}, "on_recovery is 3, expected a function"),
    ],
)
def test_a_session_says_what_is_wrong(options: dict[str, Any], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        session(*model_and_optimizer(), **options)


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: ft.Checkpoints("x", every=cast("int", "3")), "every is '3', expected an int"),
        (lambda: ft.Checkpoints("x", every=cast("int", 1.5)), "every is 1.5, expected an int"),
        (lambda: ft.Checkpoints("x", every=1, keep=0), "keep is 0, expected at least 1"),
        (lambda: ft.Checkpoints(cast("str", 3), every=1), "folder is 3, expected a path"),
        (lambda: ft.Replica(cast("int", "2")), "shards is '2', expected an int"),
        (lambda: ft.Replica(0), "shards is 0, expected at least 1"),
        (lambda: ft.Replica(2, slot=cast("int", "x")), "slot is 'x', expected an int"),
        (lambda: ft.Replica(2, slot=-1), "slot is -1, expected at least 0"),
    ],
)
def test_what_a_session_is_given_says_what_is_wrong(make: Callable[[], object], said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said):
        make()


def test_model_and_optimizer_are_not_mistaken_for_each_other() -> None:
    model, optimizer = model_and_optimizer()
    with pytest.raises(TypeError, match=r"(?s)Session: model is SGD.*, expected a module"):
        session(optimizer, model)


def test_an_optimizer_of_another_model_is_refused() -> None:
    with pytest.raises(ValueError, match="the optimizer has 2 parameters that are not the model's"):
        session(nn.Linear(2, 2), model_and_optimizer()[1])


def test_until_is_a_number() -> None:
    with pytest.raises(TypeError, match=r"Session.steps: until is '3', expected an int"):
        next(session().steps(until=cast("int", "3")))


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: ft.ElasticSampler(10, cast("int", 2.5)), "ElasticSampler: batch_size is 2.5, expected an int"),
        (lambda: ft.ElasticSampler(10, 2, seed=cast("int", "a")), "ElasticSampler: seed is 'a', expected an int"),
        (lambda: ft.ElasticSampler(cast("int", 10.5), 2), "ElasticSampler: data is 10.5, expected a dataset"),
        (lambda: ft.LocalSGD(every=cast("int", "3")), "LocalSGD: every is '3', expected an int"),
        (lambda: ft.DiLoCo(every=cast("int", 1.5)), "DiLoCo: every is 1.5, expected an int"),
        (lambda: ft.DiLoCo(every=1, lr=cast("float", "x")), "DiLoCo: lr is 'x', expected a number"),
        (lambda: ft.DiLoCo(every=1, momentum=cast("float", None)), "DiLoCo: momentum is None, expected a number"),
    ],
)
def test_others_say_what_is_wrong(make: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        make()


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["lr", "momentum"])
def test_rates_of_an_outer_step_that_cannot_be(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"DiLoCo: {name} is {value}, expected a finite number, at least 0"):
        ft.DiLoCo(every=1, **{name: value})


def test_a_process_that_nobody_has_started_as_a_member_is_told_how(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYCOMMS_AGENT", "PYCOMMS_COORDINATOR", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    with pytest.raises(ValueError, match=r"RANK, WORLD_SIZE not set, .* start it with pycomms run or torchrun"):
        ft.Session(*model_and_optimizer())
