"""A rank of a torch.distributed backend. A program for a child of the driver.

    --socket=S --contestant=gloo --rank=0 --world=2 --address=A --port=P [--device=cuda] [--cores=0,1]

Every call is the public one that a training script makes. On a GPU a call has ended when its result is there: each is
followed by a synchronization, alike for all.
"""

from __future__ import annotations

import argparse
import gc
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from pycomms.bench.protocol import Hello, connect
from pycomms.bench.ranks.loop import Rank, pin, serve
from pycomms.bench.ranks.operations import Buffer, Call, Unsupported

TIMEOUT = timedelta(seconds=60)


class TorchEndpoint:
    """Bound calls of torch.distributed on the default group. backend: torch's name of it. Raises what torch raises."""

    def __init__(self, backend: str, given: argparse.Namespace) -> None:
        self.rank: int = given.rank
        self.world: int = given.world
        self.backend = backend
        self._device: str = given.device
        self._store = TCPStore(given.address, given.port, given.world, is_master=given.rank == 0, timeout=TIMEOUT)
        self._generation = 0
        self.connect()

    def connect(self) -> None:
        """A new default group. Keys of the store are used once."""
        self._generation += 1
        dist.init_process_group(
            self.backend,
            store=PrefixStore(f"bench/{self._generation}", self._store),
            rank=self.rank,
            world_size=self.world,
            timeout=TIMEOUT,
        )

    def buffer(self, count: int, *, shared: bool = False) -> Buffer:
        if shared and self._device != "cpu":
            raise Unsupported("memory that processes share is a matter of CPU tensors")
        tensor = torch.zeros(count, dtype=torch.float32, device=self._device)
        return tensor.share_memory_() if shared else tensor

    def _ended(self, call: Call) -> Call:
        """The call, and on a GPU the wait for its result."""
        if self._device == "cpu":
            return call

        def and_wait() -> None:
            call()
            torch.cuda.synchronize()

        return and_wait

    def all_reduce(self, data: Buffer) -> Call:
        return self._ended(partial(dist.all_reduce, data))

    def all_reduce_many(self, data: Sequence[Buffer]) -> Call:
        def call() -> None:
            works = [dist.all_reduce(one, async_op=True) for one in data]
            for work in works:
                work.wait()

        return self._ended(call)

    def all_gather(self, out: Buffer, part: Buffer) -> Call:
        return self._ended(partial(dist.all_gather_into_tensor, out, part))

    def reduce_scatter(self, part: Buffer, data: Buffer) -> Call:
        return self._ended(partial(dist.reduce_scatter_tensor, part, data))

    def broadcast(self, data: Buffer) -> Call:
        return self._ended(partial(dist.broadcast, data, 0))

    def all_to_all(self, out: Buffer, data: Buffer) -> Call:
        return self._ended(partial(dist.all_to_all_single, out, data))

    def reduce(self, data: Buffer) -> Call:
        return self._ended(partial(dist.reduce, data, 0))

    def gather(self, out: Buffer | None, part: Buffer) -> Call:
        return self._ended(partial(dist.gather, part, None if out is None else list(out.chunk(self.world)), 0))

    def scatter(self, part: Buffer, data: Buffer | None) -> Call:
        return self._ended(partial(dist.scatter, part, None if data is None else list(data.chunk(self.world)), 0))

    def barrier(self) -> Call:
        return self._ended(dist.barrier)

    def ping_pong(self, data: Buffer, peer: int) -> Call:
        first, second = (dist.send, dist.recv) if self.rank < peer else (dist.recv, dist.send)

        def call() -> None:
            first(data, peer)
            second(data, peer)

        return self._ended(call)

    def initialize(self) -> tuple[Call, Call]:
        data = torch.ones(2, device=self._device)

        def disconnect() -> None:
            dist.barrier()
            dist.destroy_process_group()

        def connect_and_reduce() -> None:
            self.connect()
            dist.all_reduce(data)

        return disconnect, self._ended(connect_and_reduce)


def _ours() -> tuple[str, str]:
    import pycomms

    pycomms.register()
    return "pycomms", f"pycomms {pycomms.__version__}"


def _builtin_nccl2() -> tuple[str, str]:
    import pycomms

    return pycomms.builtin_nccl2(), _torch()


def _torch() -> str:
    return f"torch {torch.__version__}"


Known = Callable[[], tuple[str, str]]
"""Makes a backend known to torch. Returns its name there, and its version."""

BACKENDS: Mapping[str, Known] = {
    "pycomms": _ours,
    "gloo": lambda: ("gloo", _torch()),
    "nccl": lambda: ("nccl", _torch()),
    "builtin_nccl2": _builtin_nccl2,
}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    made.add_argument("--socket", required=True)
    made.add_argument("--contestant", required=True)
    made.add_argument("--rank", type=int, required=True)
    made.add_argument("--world", type=int, required=True)
    made.add_argument("--address", required=True)
    made.add_argument("--port", type=int, required=True)
    made.add_argument("--device", default="cpu")
    made.add_argument("--cores", default="")
    return made


def prepare(given: argparse.Namespace) -> None:
    pin(given.cores, given.rank)
    torch.set_num_threads(1)
    if given.device != "cpu":
        torch.cuda.set_device(given.rank)


def take_part(given: argparse.Namespace, rank: Rank, version: str) -> None:
    gc.collect()
    gc.freeze()  # each block begins with a collection, which would go through all of torch's objects
    hello = Hello(contestant=given.contestant, rank=given.rank, pid=os.getpid(), version=version)
    serve(connect(given.socket, hello), rank)
    dist.destroy_process_group()


def main(arguments: Sequence[str], endpoint: type[TorchEndpoint] = TorchEndpoint) -> None:
    given = parser().parse_args(arguments)
    prepare(given)
    backend, version = BACKENDS[given.contestant]()
    take_part(given, Rank(endpoint(backend, given)), version)
