"""Gradients, averaged over whoever is in. An error never leaves a backward pass: it is kept for the end of the step.

An autograd engine that an exception leaves halfway may not be used again (DDP's reducer demands that its reduction has
ended), so a failure is latched here, the backward pass ends with useless gradients, and the step is not committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._C._distributed_c10d import Work

from pycomms.ft._shards import like, local_of
from pycomms.ft._shared_memory import shared_empty


class Latch:
    """The first failure of a step."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def keep(self, error: Exception) -> None:
        if self.error is None:
            self.error = error

    def clear(self) -> None:
        self.error = None


class Gradients:
    """Sums the gradients of a model at the end of a step, however many backward passes it has had.

    Parameters of one dtype and device lie in one block, in the order of the model, with a mark for each parameter that
    says whether any member has a gradient of it. Of a parameter that is sharded, the part of this process.
    """

    def __init__(self, model: nn.Module) -> None:
        self._blocks = _blocks([one for one in model.parameters() if one.requires_grad])

    def reduce(self, group: dist.ProcessGroup, divisor: int) -> None:
        """Raises what the group raises; the gradients are then of no use.

        Args:
            group: of those who have the same parameters, or the same parts of them.
            divisor: micro-batches of the step, over all members, or over all replicas.
        """
        works: list[Work] = []
        for block in self._blocks:
            block.gather()
            options = dist.AllreduceOptions()
            options.asyncOp = len(self._blocks) > 1
            works.append(group.allreduce([block.flat], options))
        for block, work in zip(self._blocks, works, strict=True):
            work.wait()
            block.give_back(divisor)


@dataclass
class _Block:
    parameters: list[nn.Parameter]
    flat: Tensor
    places: list[Tensor]  # of each parameter
    gradients: list[Tensor]  # each made of its place
    marks: Tensor

    def gather(self) -> None:
        pairs = [(place, one.grad) for place, one in zip(self.places, self.parameters, strict=True)]
        present = [(place, local_of(grad)) for place, grad in pairs if grad is not None]
        self.marks.copy_(torch.tensor([grad is not None for _, grad in pairs], dtype=self.marks.dtype))
        if len(present) < len(pairs):
            self.flat[: -len(pairs)].zero_()
        if present:
            torch._foreach_copy_([place for place, _ in present], [grad for _, grad in present])

    def give_back(self, divisor: int) -> None:
        if divisor > 1:
            self.flat.div_(divisor)
        used = (self.marks != 0).tolist()
        for parameter, gradient, is_used in zip(self.parameters, self.gradients, used, strict=True):
            parameter.grad = gradient if is_used else None


def _blocks(parameters: Sequence[nn.Parameter]) -> list[_Block]:
    kinds: dict[tuple[torch.dtype, torch.device], list[nn.Parameter]] = {}
    for parameter in parameters:
        kinds.setdefault((parameter.dtype, parameter.device), []).append(parameter)
    blocks = []
    for (dtype, device), members in kinds.items():
        held = [local_of(parameter) for parameter in members]
        sizes = [one.numel() for one in held]
        flat = shared_empty(sum(sizes) + len(members), dtype, device)
        *parts, marks = flat.split([*sizes, len(members)])
        places = [part.view_as(one) for part, one in zip(parts, held, strict=True)]
        gradients = [like(parameter, place) for parameter, place in zip(members, places, strict=True)]
        blocks.append(_Block(members, flat, places, gradients, marks))
    return blocks
