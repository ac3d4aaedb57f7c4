"""A rank of an MPI library, through mpi4py. Started by that library's mpiexec, in that library's environment.

    mpiexec -n 2 python -m bench.ranks.mpi_rank --socket S --contestant mpich [--cores 0,1]

Buffers are numpy arrays, handed over as buffers (the upper-case methods), which is mpi4py's fast way.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial

import numpy as np

from bench.ranks.mpi_library import MPI
from bench.ranks.mpi_window import MpiWindow
from bench.ranks.one_sided import TABLE
from pycomms.bench.protocol import Hello, connect
from pycomms.bench.ranks.loop import Rank, pin, serve
from pycomms.bench.ranks.operations import Buffer, Call, Unsupported


class MpiEndpoint:
    """Bound calls on COMM_WORLD. Buffer descriptions are made beforehand: building them is not MPI's cost."""

    def __init__(self) -> None:
        self._comm = MPI.COMM_WORLD
        self.rank: int = self._comm.Get_rank()
        self.world: int = self._comm.Get_size()

    def buffer(self, count: int, *, shared: bool = False) -> Buffer:
        if shared:
            raise Unsupported("there is no shared tensor here")
        return np.zeros(count, dtype=np.float32)

    def all_reduce(self, data: Buffer) -> Call:
        return partial(self._comm.Allreduce, MPI.IN_PLACE, [data, MPI.FLOAT])

    def all_reduce_many(self, data: Sequence[Buffer]) -> Call:
        described = [[one, MPI.FLOAT] for one in data]

        def call() -> None:
            MPI.Request.Waitall([self._comm.Iallreduce(MPI.IN_PLACE, one) for one in described])

        return call

    def all_gather(self, out: Buffer, part: Buffer) -> Call:
        return partial(self._comm.Allgather, [part, MPI.FLOAT], [out, len(part), MPI.FLOAT])

    def reduce_scatter(self, part: Buffer, data: Buffer) -> Call:
        return partial(self._comm.Reduce_scatter_block, [data, MPI.FLOAT], [part, MPI.FLOAT])

    def broadcast(self, data: Buffer) -> Call:
        return partial(self._comm.Bcast, [data, MPI.FLOAT], 0)

    def all_to_all(self, out: Buffer, data: Buffer) -> Call:
        count = len(data) // self.world
        return partial(self._comm.Alltoall, [data, count, MPI.FLOAT], [out, count, MPI.FLOAT])

    def reduce(self, data: Buffer) -> Call:
        if self.rank == 0:
            return partial(self._comm.Reduce, MPI.IN_PLACE, [data, MPI.FLOAT])
        return partial(self._comm.Reduce, [data, MPI.FLOAT], None)

    def gather(self, out: Buffer | None, part: Buffer) -> Call:
        received = None if out is None else [out, len(part), MPI.FLOAT]
        return partial(self._comm.Gather, [part, MPI.FLOAT], received)

    def scatter(self, part: Buffer, data: Buffer | None) -> Call:
        sent = None if data is None else [data, len(part), MPI.FLOAT]
        return partial(self._comm.Scatter, sent, [part, MPI.FLOAT])

    def barrier(self) -> Call:
        return partial(self._comm.Barrier)

    def ping_pong(self, data: Buffer, peer: int) -> Call:
        described = [data, MPI.FLOAT]
        first, second = (self._comm.Send, self._comm.Recv) if self.rank < peer else (self._comm.Recv, self._comm.Send)

        def call() -> None:
            first(described, peer)
            second(described, peer)

        return call

    def initialize(self) -> tuple[Call, Call]:
        raise Unsupported("MPI starts once in a process")

    def window(self, nbytes: int) -> MpiWindow:
        return MpiWindow(self._comm, nbytes)


def launched_rank() -> int:
    """The rank as the launcher tells it, before MPI is initialized."""
    for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    raise SystemExit("not started by mpiexec")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--contestant", required=True)
    parser.add_argument("--cores", default="")
    args = parser.parse_args()
    pin(args.cores, launched_rank())
    MPI.Init()
    endpoint = MpiEndpoint()
    version = MPI.Get_library_version().splitlines()[0].split(",")[0].strip("\0 ")
    hello = Hello(contestant=args.contestant, rank=endpoint.rank, pid=os.getpid(), version=version)
    serve(connect(args.socket, hello), Rank(endpoint, TABLE))
    MPI.Finalize()


if __name__ == "__main__":
    main()
