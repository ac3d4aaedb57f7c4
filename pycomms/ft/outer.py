"""Members that train by themselves for a while and then put together what they have come to.

A step of the session is then a round: ``every`` inner steps, in which nobody says anything to anybody, and the outer
one, which all take or none does. A round that is not committed is done again by those who are left, from where it
began: they take samples that fit their number, so that each is used once, and come to what they would have come to
without the failure.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD

from pycomms.ft._arguments import expect_int, expect_number
from pycomms.ft._shared_memory import shared_empty
from pycomms.ft._state import Stateful


class LocalSGD:
    """The outer step is the average of the members' parameters::

        session = ft.Session(model, optimizer, sampler=sampler, outer=ft.LocalSGD(every=50))
        for step in session.steps(until=200):
            with step:
                for inputs, labels in step.batches:
                    loss_function(model(inputs), labels).backward()
                    step.inner_step()
                step.optimizer_step()

    The optimizer's state is each member's own; a newcomer begins with that of one of the others.

    Args:
        every: inner steps of a round.

    Raises:
        ValueError: every is less than 1.
        TypeError: every is no int.
    """

    def __init__(self, every: int) -> None:
        expect_int(type(self).__name__, "every", every, 1)
        self.every = every
        self._parameters: list[Tensor] = []
        self._is_open = False  # a round has begun, and has not ended either way
        self._blocks: list[Tensor] = []
        self._places: list[Tensor] = []  # of each parameter in the blocks
        self._anchors: list[Tensor] = []  # the parameters as the round has begun with them
        self._inner: list[Stateful] = []
        self._kept: list[dict[str, Any]] = []

    def bind(self, model: nn.Module, inner: list[Stateful]) -> None:
        """Called by the session. inner: what inner steps change beside the parameters."""
        kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
        for one in model.parameters():
            if one.requires_grad:
                kinds.setdefault((one.dtype, one.device), []).append(one)
        for (dtype, device), members in kinds.items():
            sizes = [one.numel() for one in members]
            block = shared_empty(sum(sizes), dtype, device)
            self._blocks.append(block)
            self._parameters += members
            self._places += [part.view_as(one) for part, one in zip(block.split(sizes), members, strict=True)]
        self._anchors = [one.detach().clone() for one in self._parameters]
        self._inner = inner

    @torch.no_grad()
    def begin(self) -> None:
        torch._foreach_copy_(self._anchors, self._parameters)
        self._kept = [copy.deepcopy(one.state_dict()) for one in self._inner]
        self._is_open = True

    @torch.no_grad()
    def put_back(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        torch._foreach_copy_(self._parameters, self._anchors)
        for one, state in zip(self._inner, self._kept, strict=True):
            one.load_state_dict(state)

    @torch.no_grad()
    def reduce(self, group: dist.ProcessGroup) -> None:
        """What the outer step is made of, averaged over the members. Raises what the group raises."""
        self._gather()
        for block in self._blocks:
            work = group.allreduce([block])
            work.wait()
            if group.size() > 1:
                block.div_(group.size())

    @torch.no_grad()
    def take_step(self) -> None:
        self._is_open = False
        torch._foreach_copy_(self._parameters, self._places)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Nothing lasts from round to round."""

    def _gather(self) -> None:
        torch._foreach_copy_(self._places, self._parameters)


class DiLoCo(LocalSGD):
    """The outer step is one of SGD with Nesterov's momentum. Its gradient: how far the members have moved, on average.

    Used as :class:`LocalSGD` is. As in `DiLoCo <https://arxiv.org/abs/2311.08105>`_.

    Args:
        every: inner steps of a round.
        lr: of the outer step.
        momentum: of the outer step; 0 is SGD without one.

    Raises:
        ValueError: every is less than 1; lr or momentum is negative, infinite or NaN.
        TypeError: every is no int; lr or momentum is no number.
    """

    def __init__(self, every: int, *, lr: float = 0.7, momentum: float = 0.9) -> None:
        super().__init__(every)
        expect_number("DiLoCo", "lr", lr, 0)
        expect_number("DiLoCo", "momentum", momentum, 0)
        self._rates = (lr, momentum)
        self._optimizer: SGD | None = None

    def bind(self, model: nn.Module, inner: list[Stateful]) -> None:
        super().bind(model, inner)
        lr, momentum = self._rates
        self._optimizer = SGD(self._parameters, lr=lr, momentum=momentum, nesterov=momentum > 0)

    @torch.no_grad()
    def take_step(self) -> None:
        self._is_open = False
        torch._foreach_copy_(self._parameters, self._anchors)
        for parameter, place in zip(self._parameters, self._places, strict=True):
            parameter.grad = place
        self._bound.step()
        self._bound.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        return self._bound.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._bound.load_state_dict(state_dict)

    def _gather(self) -> None:
        torch._foreach_copy_(self._places, self._anchors)
        torch._foreach_sub_(self._places, self._parameters)

    @property
    def _bound(self) -> SGD:
        if self._optimizer is None:
            raise RuntimeError("DiLoCo: not used by a session yet")
        return self._optimizer
