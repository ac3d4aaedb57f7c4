"""Windows, when there are any. Runs on a rank only."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributed.distributed_c10d import _get_default_group


def are_not_supported(rank: int, world: int) -> None:
    backend: Any = _get_default_group()._get_backend(torch.device("cuda"))
    assert not getattr(backend, "supports_window", False), (
        "the backend has windows: tests/gpu has no checks of them yet"
    )
