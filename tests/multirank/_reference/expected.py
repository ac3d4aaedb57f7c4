"""An expected result, as an endless sequence like the inputs, and how an actual tensor differs from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from .inputs import repeat

_BLOCK = 1 << 20  # elements compared at a time, so that a large tensor needs no large float64 copy


class Expected(ABC):
    def error(self, actual: torch.Tensor, start: int = 0) -> str | None:
        """None, or what is wrong with `actual`, which should be the elements from `start` on."""
        flat = actual.reshape(-1)
        for first in range(0, flat.numel(), _BLOCK):
            block = flat[first : first + _BLOCK]
            wrong = self._wrong(block, start + first)
            if wrong.any():
                at = int(wrong.nonzero()[0])
                return (
                    f"{int(wrong.sum())} of {block.numel()} elements from {first} on are wrong, the first at "
                    f"{first + at}: {_show(block, at)}, expected {self._show(start + first + at)}"
                )
        return None

    @abstractmethod
    def _wrong(self, block: torch.Tensor, start: int) -> torch.Tensor: ...

    @abstractmethod
    def _show(self, position: int) -> str: ...


@dataclass(frozen=True)
class Exact(Expected):
    """The same bits."""

    period: torch.Tensor

    def _wrong(self, block: torch.Tensor, start: int) -> torch.Tensor:
        wanted = repeat(self.period, start, block.numel())
        shape = (block.numel(), block.element_size())
        if torch.equal(block.view(torch.uint8), wanted.view(torch.uint8)):
            return torch.zeros(1, dtype=torch.bool)
        return (block.view(torch.uint8).view(shape) != wanted.view(torch.uint8).view(shape)).any(1)

    def _show(self, position: int) -> str:
        return _show(repeat(self.period, position, 1), 0)


@dataclass(frozen=True)
class Close(Expected):
    """Within a bound for every element. `period` is float64 or complex128, `bound` float64."""

    period: torch.Tensor
    bound: torch.Tensor

    def _wrong(self, block: torch.Tensor, start: int) -> torch.Tensor:
        difference = (block.to(self.period.dtype) - repeat(self.period, start, block.numel())).abs()
        return ~(difference <= repeat(self.bound, start, block.numel()))  # a NaN is wrong, too

    def _show(self, position: int) -> str:
        bound = float(repeat(self.bound, position, 1))
        return f"{_show(repeat(self.period, position, 1), 0)} within {bound:.3g}"


def _show(values: torch.Tensor, at: int) -> str:
    return str(values[at].item())
