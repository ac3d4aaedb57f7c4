"""What the environment says, read once. The only module that reads ``os.environ``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "PYCOMMS_"


_TORCHS_REGISTER_SEGMENTS = ("TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK", "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK")
_YES = ("1", "y", "yes", "t", "true")
_NO = ("", "0", "n", "no", "f", "false")


def _is_set(environment: Mapping[str, str], *names: str) -> bool:
    """The first of these variables that is set decides."""
    name = next((name for name in names if name in environment), None)
    if name is None:
        return False
    value = environment[name].lower()
    if value not in _YES + _NO:
        raise ValueError(f"{name} must be 0 or 1, not {environment[name]!r}")
    return value in _YES


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@dataclass(frozen=True, kw_only=True)
class Config:
    """One field per variable ``PYCOMMS_<FIELD>``; docs/env.md is generated from it."""

    engine: Path = field(
        default=Path(__file__).parent / "lib" / "libhostccl.so",
        metadata=_help("path of the engine for CPU tensors"),
    )
    vector_width: str = field(
        default="",
        metadata=_help("vectors of the reductions, at most: baseline, avx2 or avx512; empty is the widest there is"),
    )
    connect: str = field(
        default="background",
        metadata=_help("when a group without options connects its ranks: background, eager or lazy"),
    )

    register_segments: bool = field(
        default=False,
        metadata=_help(
            "1: all of torch's memory on a GPU is registered with the NCCL of every group that works with it; "
            "torch's `TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK` says the same"
        ),
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Config:
        """Raises ValueError for a value that makes no sense."""
        default = cls()
        config = cls(
            engine=Path(environment.get(f"{PREFIX}ENGINE", default.engine)),
            vector_width=environment.get(f"{PREFIX}VECTOR_WIDTH", default.vector_width),
            connect=environment.get(f"{PREFIX}CONNECT", default.connect),
            register_segments=_is_set(environment, f"{PREFIX}REGISTER_SEGMENTS", *_TORCHS_REGISTER_SEGMENTS),
        )
        if config.connect not in ("background", "eager", "lazy"):
            raise ValueError(f"{PREFIX}CONNECT must be background, eager or lazy, not {config.connect!r}")
        return config


@cache
def config() -> Config:
    """The configuration of this process."""
    return Config.from_environment(os.environ)
