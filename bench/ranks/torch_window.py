"""A window of pycomms.rma under test. Its target sleeps: nobody calls anything there."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from bench.ranks.one_sided import TARGET
from pycomms import rma
from pycomms.bench.ranks.operations import Buffer, Call, Unsupported


class TorchWindow:
    def __init__(self, nbytes: int) -> None:
        self._win = rma.Window(rma.empty(nbytes // 8, dtype=torch.int64))
        self.local = self._win.local

    def buffer(self, count: int) -> Buffer:
        return torch.zeros(count, dtype=torch.int64)

    def put(self, data: Buffer) -> Call:
        put, flush = self._win.put, self._win.flush

        def call() -> None:
            put(data, TARGET)
            flush(TARGET)

        return call

    def get(self, data: Buffer) -> Call:
        return partial(self._win.get, data, TARGET)

    def fetch_add(self, value: int) -> Call:
        return partial(self._win.fetch_add, value, TARGET)

    def compare_swap(self, expected: int, desired: int) -> Call:
        return partial(self._win.compare_swap, expected, desired, TARGET)

    def old(self, returned: Any) -> int:
        return int(returned)

    def copy(self, data: Buffer) -> Call:
        # Of any rank, so that all decide alike.
        if any(self._win.attr(rank).reach == "served" for rank in range(self._win.size)):
            raise Unsupported("memory of another host is not mapped")
        return partial(self._win.remote(TARGET).copy_, data)

    def rest(self) -> Call:
        return lambda: None

    def meet(self) -> None:
        self._win.fence()

    def close(self) -> None:
        self._win.close()
