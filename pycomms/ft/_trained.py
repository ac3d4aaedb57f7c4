"""What a session trains, and all that moves on with a step that is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from pycomms.ft._arguments import expect_kinds, expect_stateful
from pycomms.ft._buffers import Buffers
from pycomms.ft._state import Snapshot, Stateful, load, parts_of, take_apart
from pycomms.ft.ddp import DistributedDataParallel
from pycomms.ft.sampler import ElasticSampler

if TYPE_CHECKING:
    from pycomms.ft.outer import LocalSGD

_INNER = ("optimizer", "scheduler")  # what inner steps move on


class Trained:
    """Model, optimizer and what else belongs to the training, of which all members have the same state.

    Attributes:
        parts: all that has a state, by name.
        ddp: the model, if it reduces its gradients by itself.

    Raises:
        ValueError: one contradicts another.
        TypeError: one is not what its name asks for.
    """

    def __init__(
        self,
        model: nn.Module | None,
        optimizer: Optimizer | None,
        *,
        scheduler: Any,
        scaler: Any,
        sampler: ElasticSampler | None,
        state: Mapping[str, Stateful] | None,
        outer: LocalSGD | None,
        micro_batches: int | None,
        on_commit: Callable[[int], None] | None,
    ) -> None:
        expect_kinds(
            "Session",
            model=model,
            optimizer=optimizer,
            scheduler=scheduler,
            scaler=scaler,
            sampler=sampler,
            outer=outer,
        )
        if state is not None:
            expect_stateful("Session", "state", state)
        _check_parameters(model, optimizer)
        is_plain = model is not None and optimizer is not None and not isinstance(model, DistributedDataParallel)
        if outer is not None and not (is_plain and scaler is None and micro_batches is None):
            raise ValueError(
                f"Session: {type(outer).__name__} needs a plain model and an optimizer, and goes neither with a scaler "
                "nor with world='constant'"
            )
        if optimizer is None and (scheduler is not None or scaler is not None):
            raise ValueError("Session: a scheduler or a scaler needs the optimizer")
        self.model = model
        self.optimizer = optimizer
        self.sampler = sampler
        self.outer = outer
        self.ddp = model if isinstance(model, DistributedDataParallel) else None
        self.parts = parts_of(model, optimizer, scheduler, scaler, sampler, outer, state)
        self._scheduler = scheduler
        self._scaler = scaler
        self._micro_batches = micro_batches
        self._on_commit = on_commit
        self._buffers = Buffers(model)
        if outer is not None and model is not None:
            outer.bind(model, [self.parts[name] for name in _INNER if name in self.parts])

    def micro_batches_of(self, world: int) -> int:
        """Of a step, over all members."""
        return self._micro_batches or world * (self.outer.every if self.outer is not None else 1)

    def begin(self) -> None:
        """A step, which may come to nothing."""
        self._buffers.keep()
        if self.optimizer is not None:
            self.optimizer.zero_grad(set_to_none=True)
        if self.outer is not None:
            self.outer.begin()

    def batches(self, rank: int, world: int) -> Iterator[Any]:
        """This member's, of the step that is not committed yet."""
        assert self.sampler is not None
        share = self.sampler.share(rank, world, self.micro_batches_of(world))
        for index, batch in enumerate(self.sampler.batches(share)):
            if self.ddp is not None:
                self.ddp.reduces_next(index == len(share.places) - 1)
            yield batch

    def inner_step(self) -> None:
        if self.outer is None or self.optimizer is None:
            raise RuntimeError("inner_step() is for sessions with an outer=")
        self.optimizer.step()
        if self._scheduler is not None:
            self._scheduler.step()
        self.optimizer.zero_grad(set_to_none=True)

    def take_step(self, number: int, world: int) -> None:
        """Once all have voted: nothing here concerns another member."""
        if self.outer is not None:
            self.outer.take_step()
        elif self.optimizer is not None:
            if self._scaler is not None:
                self._scaler.step(self.optimizer)
                self._scaler.update()
            else:
                self.optimizer.step()
            if self._scheduler is not None:
                self._scheduler.step()
        if self.sampler is not None:
            self.sampler.commit(number, world, self.micro_batches_of(world))
        if self._on_commit is not None:
            self._on_commit(number)

    def put_back(self) -> None:
        """What a step has changed that is given up."""
        self._buffers.put_back()
        if self.outer is not None:
            self.outer.put_back()

    def take_apart(self) -> Snapshot:
        return take_apart(self.parts, () if self.outer is None else _INNER)

    def load(self, fetched: Any) -> None:
        load(self.parts, fetched)


def _check_parameters(model: nn.Module | None, optimizer: Optimizer | None) -> None:
    """What the optimizer changes beside the model would be something else on each member."""
    if model is None or optimizer is None:
        return
    own = {id(one) for one in model.parameters()}
    strange = sum(id(one) not in own for group in optimizer.param_groups for one in group["params"])
    if strange:
        raise ValueError(
            f"Session: the optimizer has {strange} parameters that are not the model's, expected none: "
            "their gradients would not be averaged"
        )
