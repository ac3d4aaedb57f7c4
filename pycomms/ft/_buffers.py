"""What a forward pass changes though its step may not be committed: running statistics and the like."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Buffers:
    """The buffers of a model as they were when the step began."""

    def __init__(self, model: nn.Module | None) -> None:
        self._live: list[Tensor] = [] if model is None else list(model.buffers())
        self._kept: list[Tensor] = [torch.empty_like(one) for one in self._live]

    @torch.no_grad()
    def keep(self) -> None:
        if self._live:
            torch._foreach_copy_(self._kept, self._live)

    @torch.no_grad()
    def put_back(self) -> None:
        if self._live:
            torch._foreach_copy_(self._live, self._kept)
