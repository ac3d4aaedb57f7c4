"""Which samples a step uses, so that each is used exactly once per epoch however members come and go.

All that is to be known is how far the job has come: a step takes the next samples of one long sequence, the epochs'
permutations one behind the other, and only a committed step moves on. So a step that is done again begins at the same
sample, whoever is in it, and members that join need one number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch.utils.data import default_collate

from pycomms.ft._arguments import expect_int
from pycomms.ft._random import mix


class Taken(NamedTuple):
    """Steps in a row that were alike: what the ledger keeps of them.

    Attributes:
        first_step: the first of them.
        steps: how many.
        begin: place of the first sample in the sequence of all.
        samples: how many each step took.
        world: members that were in.
    """

    first_step: int
    steps: int
    begin: int
    samples: int
    world: int


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one member takes in one step: micro-batches, each a row of places in the sequence."""

    places: tuple[range, ...]


class ElasticSampler:
    """Gives each member of a step its samples. Every member makes one with the same arguments.

    A step takes ``batch_size`` samples for each micro-batch, and goes over the end of an epoch where it must: no sample
    is dropped or used twice.

    Args:
        data: a dataset with ``__len__`` and ``__getitem__``, whose samples are collated to batches; or a number of
            samples, then batches are tensors of indices, int64.
        batch_size: samples of a micro-batch. Each member has one in a step, or several: see ``Session(world=)``.
        shuffle: each epoch in an order of its own; otherwise in that of ``data``.
        seed: of these orders.
        collate: makes a batch of a list of samples.

    Raises:
        ValueError: there are no samples, or batch_size is not positive.
        TypeError: data has no length, or batch_size or seed is no int.
    """

    def __init__(
        self,
        data: Sized | int,
        batch_size: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        collate: Callable[[list[Any]], Any] = default_collate,
    ) -> None:
        if not isinstance(data, (int, Sized)):
            raise TypeError(
                f"ElasticSampler: data is {data!r}, expected a dataset with a length, or a number of samples"
            )
        self.size = data if isinstance(data, int) else len(data)
        if self.size < 1:
            raise ValueError(f"ElasticSampler: data has {self.size} samples, expected at least 1")
        expect_int("ElasticSampler", "batch_size", batch_size, 1)
        expect_int("ElasticSampler", "seed", seed)
        self.batch_size = batch_size
        self._data: Any = None if isinstance(data, int) else data  # something to index
        self._shuffle = shuffle
        self._seed = seed
        self._collate = collate
        self._position = 0
        self._ledger: list[Taken] = []
        self._order: tuple[int, torch.Tensor] = (-1, torch.empty(0, dtype=torch.int64))

    @property
    def position(self) -> int:
        """How many samples committed steps have used."""
        return self._position

    @property
    def epoch(self) -> int:
        """The epoch of the next sample, from 0."""
        return self._position // self.size

    @property
    def ledger(self) -> tuple[Taken, ...]:
        """What committed steps have used, in their order: without a gap, and nothing twice."""
        return tuple(self._ledger)

    def share(self, rank: int, world: int, micro_batches: int) -> Share:
        """What a rank takes in the next step: of ``micro_batches`` in all, every ``world``-th, from its own on."""
        first = self._position
        size = self.batch_size
        mine = range(rank, micro_batches, world)
        return Share(places=tuple(range(first + one * size, first + (one + 1) * size) for one in mine))

    def batches(self, share: Share) -> Iterator[Any]:
        """The batches of a share, made when they are asked for."""
        for places in share.places:
            yield self.batch(places)

    def batch(self, places: Sequence[int]) -> Any:
        indices = [self.index(place) for place in places]
        if self._data is None:
            return torch.tensor(indices, dtype=torch.int64)
        return self._collate([self._data[one] for one in indices])

    def index(self, place: int) -> int:
        """Which sample is at a place of the sequence of all epochs."""
        epoch, within = divmod(place, self.size)
        if not self._shuffle:
            return within
        if self._order[0] != epoch:
            draw = torch.Generator().manual_seed(mix(self._seed, epoch))
            self._order = (epoch, torch.randperm(self.size, generator=draw))
        return int(self._order[1][within])

    def commit(self, step: int, world: int, micro_batches: int) -> None:
        """The step has used its samples: called by the session, on every member alike."""
        taken = micro_batches * self.batch_size
        last = self._ledger[-1] if self._ledger else None
        if last and (last.samples, last.world) == (taken, world) and last.first_step + last.steps == step:
            self._ledger[-1] = last._replace(steps=last.steps + 1)
        else:
            self._ledger.append(Taken(step, 1, self._position, taken, world))
        self._position += taken

    def check(self) -> None:
        """Raises ValueError where the ledger has a gap, or something twice."""
        place, step = 0, self._ledger[0].first_step if self._ledger else 1
        for one in self._ledger:
            if (one.begin, one.first_step) != (place, step):
                raise ValueError(
                    f"ElasticSampler: step {one.first_step} begins at sample {one.begin}, "
                    f"expected step {step} at sample {place}"
                )
            place += one.steps * one.samples
            step += one.steps
        if place != self._position:
            raise ValueError(f"ElasticSampler: the ledger ends at sample {place}, expected {self._position}")

    def state_dict(self) -> dict[str, Any]:
        return {
            "position": self._position,
            "ledger": [list(one) for one in self._ledger],
            "made_with": [self.size, self.batch_size, self._shuffle, self._seed],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError where the state is that of a sampler with other arguments."""
        own = self.state_dict()["made_with"]
        if state["made_with"] != own:
            raise ValueError(
                "ElasticSampler: the state is of one with size, batch_size, shuffle, seed "
                f"{state['made_with']}, this one has {own}"
            )
        self._position = int(state["position"])
        self._ledger = [Taken(*one) for one in state["ledger"]]
