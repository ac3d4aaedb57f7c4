"""Random numbers that are the same when a step is done again, and for whoever has the slot."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

_PRIME = 0x9E37_79B9_7F4A_7C15
_MASK = 0x7FFF_FFFF_FFFF_FFFF


class StepSeeds:
    """Each step begins with generators that are seeded by the seed, the step and the slot."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._has_accelerator: bool | None = None

    def begin(self, step: int, slot: int) -> None:
        mixed = mix(mix(self._seed, step), slot)
        if self._has_accelerator is None:
            self._has_accelerator = torch.accelerator.is_available()
        if self._has_accelerator:
            torch.manual_seed(mixed)
        else:  # the same, without a fifth of a millisecond that it takes to seed devices that are not there
            torch.default_generator.manual_seed(mixed)
        random.seed(mixed)
        np.random.seed(mixed & 0xFFFF_FFFF)


class KeptStates:
    """The program's own generators; a step that is done again begins where it began at first."""

    def __init__(self) -> None:
        self._step = -1
        self._states: tuple[Any, Any, Any] | None = None

    def begin(self, step: int, slot: int) -> None:
        if step == self._step and self._states is not None:
            torch.set_rng_state(self._states[0])
            random.setstate(self._states[1])
            np.random.set_state(self._states[2])
            return
        self._step = step
        self._states = (torch.get_rng_state(), random.getstate(), np.random.get_state())


def mix(state: int, value: int) -> int:
    """A seed, from 0 to 2**63 - 1: numbers that lie side by side give seeds that do not."""
    mixed = (state ^ (value + _PRIME)) * _PRIME & 0xFFFF_FFFF_FFFF_FFFF
    return (mixed ^ mixed >> 29) & _MASK
