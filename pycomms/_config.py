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

    nan_check: str = field(
        default="off",
        metadata=_help(
            "what a group without that option looks for in the data of its operations: off, nan or nan_and_inf. "
            "While it is not set, `TORCH_NCCL_NAN_CHECK=1` means nan"
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
            nan_check=environment.get(f"{PREFIX}NAN_CHECK", _torch_nan_check(environment) or default.nan_check),
        )
        if config.connect not in ("background", "eager", "lazy"):
            raise ValueError(f"{PREFIX}CONNECT must be background, eager or lazy, not {config.connect!r}")
        if config.nan_check not in ("off", "nan", "nan_and_inf"):
            raise ValueError(f"{PREFIX}NAN_CHECK must be off, nan or nan_and_inf, not {config.nan_check!r}")
        return config


def _torch_nan_check(environment: Mapping[str, str]) -> str | None:
    """torch's own switch for its NCCL backends, in our words."""
    said = environment.get("TORCH_NCCL_NAN_CHECK", "").lower()
    return "nan" if said in ("1", "t", "true", "y", "yes") else None


@cache
def config() -> Config:
    """The configuration of this process."""
    return Config.from_environment(os.environ)
