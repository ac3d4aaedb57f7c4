"""An MPI window under test, in one passive epoch: Lock_all once, then each operation and a flush of its target.

In an MPI a target may have to call the library for others to get on (between hosts it does), so it waits in a barrier.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.ranks.mpi_library import MPI
from bench.ranks.one_sided import TARGET
from pycomms.bench.ranks.operations import Buffer, Call, Unsupported

WORD = 8


class MpiWindow:
    """Buffers of operands and results are made beforehand: to make them is not MPI's cost."""

    def __init__(self, comm: MPI.Intracomm, nbytes: int) -> None:
        self._comm = comm
        # On one host all three libraries share this memory, too: Allocate_shared is no faster.
        self._win = MPI.Win.Allocate(nbytes, WORD, comm=comm)
        self.local = np.frombuffer(self._win.tomemory(), dtype=np.int64)
        self._old = np.zeros(1, dtype=np.int64)
        self._win.Lock_all()

    def buffer(self, count: int) -> Buffer:
        return np.zeros(count, dtype=np.int64)

    def put(self, data: Buffer) -> Call:
        return self._flushed(partial(self._win.Put, [data, MPI.INT64_T], TARGET))

    def get(self, data: Buffer) -> Call:
        return self._flushed(partial(self._win.Get, [data, MPI.INT64_T], TARGET))

    def fetch_add(self, value: int) -> Call:
        operand = np.array([value], dtype=np.int64)
        arguments = [operand, MPI.INT64_T], [self._old, MPI.INT64_T], TARGET, 0, MPI.SUM
        return self._flushed(partial(self._win.Fetch_and_op, *arguments))

    def compare_swap(self, expected: int, desired: int) -> Call:
        origin, compare = np.array([desired], dtype=np.int64), np.array([expected], dtype=np.int64)
        described = [[buffer, MPI.INT64_T] for buffer in (origin, compare, self._old)]
        return self._flushed(partial(self._win.Compare_and_swap, *described, TARGET, 0))

    def old(self, _: Any) -> int:
        return int(self._old[0])

    def copy(self, _: Buffer) -> Call:
        raise Unsupported("there is no mapped tensor here")

    def rest(self) -> Call:
        return partial(self._comm.Barrier)

    def meet(self) -> None:
        self._win.Flush_all()
        self._win.Sync()
        self._comm.Barrier()
        self._win.Sync()

    def close(self) -> None:
        self._win.Unlock_all()
        del self.local
        self._win.Free()

    def _flushed(self, operation: Call) -> Call:
        flush = self._win.Flush

        def call() -> None:
            operation()
            flush(TARGET)

        return call
