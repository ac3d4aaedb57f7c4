"""A rank of a torch.distributed backend: ours, gloo, or the one that does nothing.

    python -m bench.ranks.torch_rank --socket S --contestant gloo --rank 0 --world 2 --address A --port P [--cores 0,1]

Every call is the public one that a training script makes.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore

from bench.protocol import Hello, connect
from bench.ranks.loop import Rank, pin, serve
from bench.ranks.operations import Buffer, Call, Unsupported

TIMEOUT = timedelta(seconds=60)


class TorchEndpoint:
    """Bound calls of torch.distributed on the default group."""

    def __init__(self, backend: str, rank: int, world: int, address: str, port: int) -> None:
        self.rank = rank
        self.world = world
        self._backend = backend
        self._store = TCPStore(address, port, world, is_master=rank == 0, timeout=TIMEOUT)
        self._generation = 0
        self.connect()

    def connect(self) -> None:
        """A new default group. Keys of the store are used once."""
        self._generation += 1
        dist.init_process_group(
            self._backend,
            store=PrefixStore(f"bench/{self._generation}", self._store),
            rank=self.rank,
            world_size=self.world,
            timeout=TIMEOUT,
        )

    def buffer(self, count: int, *, shared: bool = False) -> Buffer:
        tensor = torch.zeros(count, dtype=torch.float32)
        return tensor.share_memory_() if shared else tensor

    def all_reduce(self, data: Buffer) -> Call:
        return partial(dist.all_reduce, data)

    def all_reduce_many(self, data: Sequence[Buffer]) -> Call:
        def call() -> None:
            works = [dist.all_reduce(one, async_op=True) for one in data]
            for work in works:
                work.wait()

        return call

    def all_gather(self, out: Buffer, part: Buffer) -> Call:
        return partial(dist.all_gather_into_tensor, out, part)

    def reduce_scatter(self, part: Buffer, data: Buffer) -> Call:
        return partial(dist.reduce_scatter_tensor, part, data)

    def broadcast(self, data: Buffer) -> Call:
        return partial(dist.broadcast, data, 0)

    def all_to_all(self, out: Buffer, data: Buffer) -> Call:
        return partial(dist.all_to_all_single, out, data)

    def reduce(self, data: Buffer) -> Call:
        return partial(dist.reduce, data, 0)

    def gather(self, out: Buffer | None, part: Buffer) -> Call:
        return partial(dist.gather, part, None if out is None else list(out.chunk(self.world)), 0)

    def scatter(self, part: Buffer, data: Buffer | None) -> Call:
        return partial(dist.scatter, part, None if data is None else list(data.chunk(self.world)), 0)

    def barrier(self) -> Call:
        return dist.barrier

    def ping_pong(self, data: Buffer, peer: int) -> Call:
        first, second = (dist.send, dist.recv) if self.rank < peer else (dist.recv, dist.send)

        def call() -> None:
            first(data, peer)
            second(data, peer)

        return call

    def initialize(self) -> tuple[Call, Call]:
        data = torch.ones(2)

        def disconnect() -> None:
            dist.barrier()
            dist.destroy_process_group()

        def connect_and_reduce() -> None:
            self.connect()
            dist.all_reduce(data)

        return disconnect, connect_and_reduce

    def window(self, nbytes: int) -> Any:
        if self._backend != "nccl2":
            raise Unsupported("it has no windows")
        from bench.ranks.torch_window import TorchWindow

        return TorchWindow(nbytes)


def register(contestant: str, empty_library: str) -> tuple[str, str]:
    """Makes the backend known to torch; its name there, and its version."""
    if contestant == "nccl2":
        import pycomms

        return "nccl2", f"pycomms {pycomms.__version__}"
    if contestant == "empty":
        from bench.ranks import empty_backend

        return empty_backend.register(Path(empty_library)), f"torch {torch.__version__}"
    return contestant, f"torch {torch.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--contestant", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cores", default="")
    parser.add_argument("--empty-library", default="")
    args = parser.parse_args()
    pin(args.cores, args.rank)
    torch.set_num_threads(1)
    backend, version = register(args.contestant, args.empty_library)
    endpoint = TorchEndpoint(backend, args.rank, args.world, args.address, args.port)
    link = connect(args.socket, Hello(contestant=args.contestant, rank=args.rank, pid=os.getpid(), version=version))
    serve(link, Rank(endpoint, verify=args.contestant != "empty"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
