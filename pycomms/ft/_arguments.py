"""Arguments of the wrong kind are refused where they are given, by name, and not where they are used first. Pure."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Mapping
from typing import Any

_KINDS = {
    "model": ("named_parameters", "a module"),
    "optimizer": ("zero_grad", "an optimizer"),
    "scheduler": ("load_state_dict", "a scheduler of the learning rate"),
    "scaler": ("unscale_", "a torch.amp.GradScaler"),
    "sampler": ("share", "an ft.ElasticSampler"),
    "replica": ("choose", "an ft.Replica"),
    "outer": ("take_step", "an ft.LocalSGD or ft.DiLoCo"),
    "checkpoints": ("newest", "an ft.Checkpoints"),
    "on_commit": ("__call__", "a function"),
    "on_recovery": ("__call__", "a function"),
}
"""Of arguments of a session: what tells that it is one, without importing it; and its name for people."""


def expect_int(who: str, name: str, value: Any, least: int | None = None) -> None:
    """Raises TypeError where it is no int, ValueError where it is less."""
    try:
        operator.index(value)
    except TypeError:
        raise TypeError(f"{who}: {name} is {value!r}, expected an int") from None
    if least is not None and value < least:
        raise ValueError(f"{who}: {name} is {value}, expected at least {least}")


def expect_number(who: str, name: str, value: Any, least: float) -> None:
    """Raises TypeError where it is no real number, ValueError where it is less, infinite or NaN."""
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{who}: {name} is {value!r}, expected a number")
    number = float(value)
    if not (math.isfinite(number) and number >= least):
        raise ValueError(f"{who}: {name} is {value}, expected a finite number, at least {least}")


def expect_kinds(who: str, **given: Any) -> None:
    """Raises TypeError for one that is neither None nor what its name asks for."""
    for name, value in given.items():
        mark, kind = _KINDS[name]
        if value is not None and (isinstance(value, type) or not hasattr(value, mark)):
            raise TypeError(f"{who}: {name} is {value!r}, expected {kind}")


def expect_stateful(who: str, name: str, given: object) -> None:
    """Raises TypeError for what is no mapping of things with a state."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{who}: {name} is {given!r}, expected a mapping from names to what has a state_dict")
    for key, one in given.items():
        if isinstance(one, type) or not (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
            raise TypeError(f"{who}: {name}[{key!r}] is {one!r}, expected state_dict and load_state_dict")
