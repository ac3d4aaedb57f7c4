"""Delays before each piece of work on the device, by name."""

from __future__ import annotations

from datetime import timedelta

from tests.cuda_emulator import Delays

DELAYS = {
    "none": Delays(),
    "300us": Delays(fixed=timedelta(microseconds=300)),
    "random": Delays(random=timedelta(microseconds=400), seed=7),
}
