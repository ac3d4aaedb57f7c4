"""Changes of an operation: of the call, or of a tensor in it. Each returns why it cannot be; empty: it is done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ._operation import Operation

Change = Callable[[Operation, dict[str, Any]], str]


def _skip(operation: Operation, fault: dict[str, Any]) -> str:
    operation.times = 0
    return ""


def _repeat(operation: Operation, fault: dict[str, Any]) -> str:
    operation.times = 2
    return ""


def _swap(operation: Operation, fault: dict[str, Any]) -> str:
    first = operation.args[0] if operation.args else None
    group = first if hasattr(first, "barrier") else operation.kwargs.get("group")

    def barrier() -> None:
        sys.modules["torch.distributed"].barrier(group=group)

    operation.before.append(barrier)
    return ""


def _shape(operation: Operation, fault: dict[str, Any]) -> str:
    tensor = next((one for one in operation.tensors() if one.numel() > 1), None)
    if tensor is None:
        return f"{operation.name} has no tensor of more than one element"
    operation.replace(tensor, tensor.detach().reshape(-1)[:-1])
    return ""


def _dtype(operation: Operation, fault: dict[str, Any]) -> str:
    tensor = next(iter(operation.tensors()), None)
    if tensor is None:
        return f"{operation.name} has no tensor"
    torch: Any = sys.modules["torch"]
    operation.replace(tensor, tensor.detach().to(torch.float32 if tensor.dtype != torch.float32 else torch.float64))
    return ""


def _not_finite(value: str) -> Change:
    def change(operation: Operation, fault: dict[str, Any]) -> str:
        tensor = next((one for one in operation.tensors() if one.is_floating_point() and one.numel()), None)
        if tensor is None:
            return f"{operation.name} has no tensor of floating point"

        def spoil() -> None:
            tensor.detach().reshape(-1)[tensor.numel() // 2] = float(value)

        return _at_its_side(operation, fault, spoil)

    return change


def _flip(operation: Operation, fault: dict[str, Any]) -> str:
    tensor = next((one for one in operation.tensors() if one.numel()), None)
    if tensor is None:
        return f"{operation.name} has no tensor"
    torch: Any = sys.modules["torch"]

    def spoil() -> None:
        bytes_ = tensor.detach().reshape(-1).view(torch.uint8)
        bytes_[bytes_.numel() // 2] ^= 0x10

    return _at_its_side(operation, fault, spoil)


def _at_its_side(operation: Operation, fault: dict[str, Any], spoil: Callable[[], None]) -> str:
    (operation.before if fault["side"] == "input" else operation.behind).append(spoil)
    return ""


CHANGES: dict[str, Change] = {
    "skip": _skip,
    "repeat": _repeat,
    "swap": _swap,
    "shape": _shape,
    "dtype": _dtype,
    "nan": _not_finite("nan"),
    "inf": _not_finite("inf"),
    "bitflip": _flip,
}
