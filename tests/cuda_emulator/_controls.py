"""What a test can tell the emulator to do, and ask it. Works from any thread."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from typing import Protocol

from ._library import VISIT, Live


class Error(IntEnum):
    """The CUDA errors that tests inject most. Any other number will do too."""

    INVALID_VALUE = 1
    MEMORY_ALLOCATION = 2
    ECC_UNCORRECTABLE = 214
    ILLEGAL_ADDRESS = 700
    LAUNCH_FAILURE = 719


class Stream(Protocol):
    """A torch.cuda.Stream, or whatever else has one's handle."""

    @property
    def cuda_stream(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Pauses in front of each piece of device work: `fixed`, plus at most `random`."""

    fixed: timedelta = timedelta()
    random: timedelta = timedelta()
    seed: int = 0

    def in_microseconds(self) -> tuple[int, int]:
        """fixed, random"""
        micro = timedelta(microseconds=1)
        return self.fixed // micro, self.random // micro


@dataclass(frozen=True, kw_only=True)
class LiveObjects:
    """What the program has made and not destroyed."""

    streams: int
    events: int
    graphs: int
    graph_execs: int
    user_objects: int
    pools: int
    device_bytes: int


class EmulatorError(RuntimeError):
    """The emulator refused what a test asked of it."""


class Emulator:
    """The one emulator of this process. Made by load()."""

    def __init__(self, library: ctypes.CDLL, folder: Path) -> None:
        self._library = library
        self._folder = folder
        self._aten: ctypes.CDLL | None = None

    # --- delays and order

    def set_delays(self, delays: Delays) -> None:
        self._library.cuemu_set_delays(*delays.in_microseconds(), delays.seed)

    @contextmanager
    def delays(self, delays: Delays) -> Iterator[None]:
        """These delays within the block, none after it."""
        self.set_delays(delays)
        try:
            yield
        finally:
            self.set_delays(Delays())

    @contextmanager
    def held(self, stream: Stream) -> Iterator[None]:
        """Within the block the stream begins no more work. What it was in the middle of goes on."""
        self._check(self._library.cuemu_hold(stream.cuda_stream))
        try:
            yield
        finally:
            self._check(self._library.cuemu_release(stream.cuda_stream))

    # --- failures

    def inject(self, function: str, error: int, *, after: int = 0, times: int = 1) -> None:
        """Of the coming calls of a runtime function `after` pass, and the `times` after them return `error`."""
        self._check(self._library.cuemu_inject(function.encode(), error, after, times))

    def leave_out(self, function: str, *, after: int = 0, times: int = 1) -> None:
        """The same, but the calls claim success and do nothing: a bug planted in their caller."""
        self.inject(function, 0, after=after, times=times)

    def inject_work(self, device: int, error: int, *, after: int = 0, times: int = 1) -> None:
        """The same for the pieces of work that the streams of a device run. It breaks the device."""
        self._check(self._library.cuemu_inject_work(device, error, after, times))

    def fail_device(self, device: int, error: int, reason: str = "") -> None:
        """Breaks the device now, with a sticky error."""
        self._check(self._library.cuemu_fail_device(device, error, reason.encode()))

    def heal(self) -> None:
        """Withdraws all planned failures and repairs all devices: what no real device can, but the next test needs."""
        self._library.cuemu_clear_faults()
        device = 0
        while self._library.cuemu_heal_device(device) == 0:
            device += 1

    # --- counters

    def calls(self, function: str) -> int:
        """How often the program has called a runtime function since reset_calls()."""
        return int(self._library.cuemu_calls(function.encode()))

    def all_calls(self) -> dict[str, int]:
        found: dict[str, int] = {}

        def visit(function: bytes, calls: int, _: object) -> None:
            found[function.decode()] = calls

        self._library.cuemu_each_call(VISIT(visit), None)
        return found

    def reset_calls(self) -> None:
        self._library.cuemu_reset_calls()

    def work_count(self, device: int) -> int:
        """How many pieces of work the streams of a device have begun."""
        return int(self._library.cuemu_work_count(device))

    def live(self) -> LiveObjects:
        live = Live()
        self._library.cuemu_count_live(ctypes.byref(live))
        return LiveObjects(**{field.name: getattr(live, field.name) for field in fields(LiveObjects)})

    # --- memory

    def bytes_at(self, address: int, count: int) -> bytes:
        """The bytes behind a device pointer, as they are now: whatever the streams are about to do to them."""
        self._check(self._library.cuemu_check(address, count))
        return ctypes.string_at(self._library.cuemu_bytes(address), count)

    # --- ATen

    def install_aten(self) -> None:
        """Makes ATen's CUDA ops run, on CPU kernels over the same bytes, in the order of the streams. Imports torch."""
        if self._aten is not None:
            return
        import torch

        # These pick CUDA libraries whose kernels nobody emulates; without them the ops have CPU twins.
        torch.backends.cudnn.enabled = False
        for disable in (
            torch.backends.cuda.enable_flash_sdp,
            torch.backends.cuda.enable_mem_efficient_sdp,
            torch.backends.cuda.enable_cudnn_sdp,
        ):
            disable(False)
        self._aten = ctypes.CDLL(str(self._folder / "libcuemu_aten.so"))
        self._aten.cuemu_install_aten.restype = ctypes.c_char_p
        if error := self._aten.cuemu_install_aten():
            raise EmulatorError(f"the ATen fallback was not installed: {error.decode()}")

    def _check(self, error: int) -> None:
        if error != 0:
            raise EmulatorError(f"{error}: {self._library.cudaGetErrorString(error).decode()}")
