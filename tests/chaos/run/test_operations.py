"""Faults that change an operation: in one process, with a stand-in for the operation."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from pycomms.chaos._inside._pycomms_chaos._operation import Operation
from pycomms.chaos._inside._pycomms_chaos._tensors import CHANGES


class Call:
    """Stands for all_reduce over a group in which others give nothing."""

    def __init__(self) -> None:
        self.given: list[torch.Tensor] = []

    def __call__(self, tensors: Any, options: object = None) -> None:
        for tensor in tensors if isinstance(tensors, list) else [tensors]:
            self.given.append(tensor.clone())


def done(kind: str, tensor: torch.Tensor, as_list: bool = False, **settings: str) -> list[torch.Tensor]:
    call = Call()
    operation = Operation("all_reduce", call, ([tensor] if as_list else tensor, None), {})
    assert CHANGES[kind](operation, settings) == ""
    operation.run()
    return call.given


@pytest.mark.parametrize("as_list", [False, True])
def test_what_is_called(as_list: bool) -> None:
    def tensor() -> torch.Tensor:
        return torch.arange(6).view(2, 3)

    assert done("skip", tensor(), as_list) == []
    assert len(done("repeat", tensor(), as_list)) == 2
    assert done("shape", tensor(), as_list)[0].numel() == 5
    assert done("dtype", tensor(), as_list)[0].dtype == torch.float32
    assert done("dtype", tensor().float(), as_list)[0].dtype == torch.float64


def test_what_is_left_out_can_be_waited_for() -> None:
    operation = Operation("all_reduce", Call(), (torch.zeros(2),), {})
    CHANGES["skip"](operation, {})
    assert operation.run().wait()


def test_what_is_given_is_spoilt() -> None:
    tensor = torch.ones(2, 3)
    (given,) = done("nan", tensor, side="input")
    assert int(given.isnan().sum()) == 1
    (given,) = done("inf", torch.ones(5), side="input")
    assert math.isinf(float(given[2]))
    (given,) = done("bitflip", torch.zeros(4, dtype=torch.int64), side="input")
    assert int((given != 0).sum()) == 1


def test_what_comes_back_is_spoilt() -> None:
    tensor = torch.zeros(4, dtype=torch.int64)
    (given,) = done("bitflip", tensor, side="output")
    assert not given.any()
    assert int((tensor != 0).sum()) == 1


@pytest.mark.parametrize("kind, tensor, why", [
    ("nan", torch.zeros(2, dtype=torch.int64), "no tensor of floating point"),
    ("shape", torch.zeros(1), "no tensor of more than one element"),
    ("bitflip", torch.zeros(0), "no tensor"),
])  # fmt: skip
def test_what_cannot_be_done_is_said(kind: str, tensor: torch.Tensor, why: str) -> None:
    operation = Operation("all_reduce", Call(), (tensor,), {})
    assert why in CHANGES[kind](operation, {"side": "input"})
