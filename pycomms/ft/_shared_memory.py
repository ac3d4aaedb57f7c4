"""Memory that the members of a host can map: our engine reduces it in place, without a copy."""

from __future__ import annotations

import torch
from torch import Tensor


def shared_empty(numel: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """One block; in shared memory where it is the CPU's."""
    tensor = torch.zeros(numel, dtype=dtype, device=device)
    return tensor.share_memory_() if device.type == "cpu" and numel else tensor
