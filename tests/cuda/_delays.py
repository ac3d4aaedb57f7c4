"""Delays before each piece of work on the device, by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from tests import cuda_emulator
from tests.cuda_emulator import Delays

DELAYS = {
    "none": Delays(),
    "300us": Delays(fixed=timedelta(microseconds=300)),
    "random": Delays(random=timedelta(microseconds=400), seed=7),
}


@contextmanager
def delayed(name: str) -> Iterator[None]:
    """These delays within the block, on a rank. A real GPU has its own, and nothing is done: tests/gpu."""
    if not cuda_emulator.is_loaded():
        yield
        return
    with cuda_emulator.load().delays(DELAYS[name]):
        yield
