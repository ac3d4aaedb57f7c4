"""What the parent asks of a worker: one function, on one rank of one group. Pure data."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True)
class Job:
    target: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    rank: int
    world: int
    backend: str
    store_path: str
    group_timeout: float
    init: bool
    env: dict[str, str] = field(default_factory=dict)


def reference_to(function: Callable[..., Any]) -> str:
    """A name by which another process finds the function."""
    if "<" in function.__qualname__:
        raise TypeError(f"{function.__qualname__} is not at the top level of its module: no other process can find it")
    return f"{function.__module__}:{function.__qualname__}"


def resolve(target: str) -> Any:
    module, _, qualname = target.partition(":")
    found: Any = sys.modules.get(module) or importlib.import_module(module)
    for name in qualname.split("."):
        found = getattr(found, name)
    return found
