"""Which NCCL."""

from __future__ import annotations

from dataclasses import dataclass

from pycomms import _C


@dataclass(frozen=True, kw_only=True)
class NcclVersion:
    """Versions as ``(major, minor, patch)``."""

    built: tuple[int, int, int]
    """Whose declarations pycomms was built with. It runs with older ones, and newer ones are compatible."""
    loaded: tuple[int, int, int] | None
    """Of the library that torch has loaded; None where there is none, or none that pycomms can use."""


def nccl_version() -> NcclVersion:
    """The NCCL that pycomms was built against and the one that is loaded. Initialises nothing."""
    loaded = _C.loaded_nccl_version()
    return NcclVersion(built=_triple(_C.nccl_abi_version), loaded=None if loaded is None else _triple(loaded))


def _triple(code: int) -> tuple[int, int, int]:
    return code // 10000, code // 100 % 100, code % 100
