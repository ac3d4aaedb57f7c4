"""Random programs of kernels and collectives on several streams, with delays before each piece of work: whatever the
order in which the device gets to things, the numbers are those of a program that runs one step after the other.

Every rank runs the same program on values of its own, and can therefore compute all ranks' values on the CPU.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.multirank._harness import Ranks

from ._delays import DELAYS, delayed

_MODULUS = 1_000_003
_TENSORS = 4
_STREAMS = 3
_STEPS = 24
_SIZES = (1, 7, 1024, 40_000)


@dataclass(eq=False)
class Cell:
    """A tensor, what it should hold on every rank, and the stream on which it was last used."""

    tensor: torch.Tensor
    expected: list[torch.Tensor]
    stream: torch.cuda.Stream
    work: Any = None


@dataclass(eq=False)
class Program:
    seed: int
    rank: int
    world: int
    dice: random.Random = field(init=False)
    streams: list[torch.cuda.Stream] = field(init=False)
    cells: list[Cell] = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.streams = [torch.cuda.Stream() for _ in range(_STREAMS)]
        self.cells = [self.new_cell() for _ in range(_TENSORS)]

    def new_cell(self) -> Cell:
        size = self.dice.choice(_SIZES)
        start = self.dice.randrange(1000)
        stream = self.dice.choice(self.streams)
        expected = [torch.arange(size, dtype=torch.int64) + start + 17 * rank for rank in range(self.world)]
        with torch.cuda.stream(stream):
            tensor = torch.arange(size, dtype=torch.int64, device="cuda") + (start + 17 * self.rank)
        return Cell(tensor, expected, stream)

    def use(self, cell: Cell, stream: torch.cuda.Stream) -> None:
        """What a correct program does before it uses a tensor on a stream."""
        with torch.cuda.stream(stream):
            if cell.stream != stream:
                stream.wait_stream(cell.stream)
                cell.tensor.record_stream(stream)
            if cell.work is not None:
                cell.work.wait()
                cell.work = None
        cell.stream = stream

    def compute(self, cell: Cell, stream: torch.cuda.Stream) -> None:
        factor, offset = self.dice.randrange(2, 9), self.dice.randrange(100)
        self.use(cell, stream)
        with torch.cuda.stream(stream):
            cell.tensor.mul_(factor).add_(offset).remainder_(_MODULUS)
        cell.expected = [(value * factor + offset) % _MODULUS for value in cell.expected]

    def all_reduce(self, cell: Cell, stream: torch.cuda.Stream) -> None:
        is_async = self.dice.random() < 0.6
        self.use(cell, stream)
        with torch.cuda.stream(stream):
            cell.work = dist.all_reduce(cell.tensor, async_op=is_async)
        total = sum(cell.expected[1:], start=cell.expected[0].clone())
        cell.expected = [total.clone() for _ in range(self.world)]

    def broadcast(self, cell: Cell, stream: torch.cuda.Stream) -> None:
        root = self.dice.randrange(self.world)
        is_async = self.dice.random() < 0.6
        self.use(cell, stream)
        with torch.cuda.stream(stream):
            cell.work = dist.broadcast(cell.tensor, root, async_op=is_async)
        cell.expected = [cell.expected[root].clone() for _ in range(self.world)]

    def gather_and_forget(self, cell: Cell, stream: torch.cuda.Stream) -> None:
        """The input dies right after the call, and its memory goes to whoever allocates next."""
        self.use(cell, stream)
        with torch.cuda.stream(stream):
            temporary = cell.tensor * 2
            gathered = torch.empty(self.world * temporary.numel(), dtype=torch.int64, device="cuda")
            work = dist.all_gather_into_tensor(gathered, temporary, async_op=True)
            shape = temporary.shape
            del temporary
            torch.full(shape, -1, dtype=torch.int64, device="cuda")
        cell.tensor, cell.work = gathered, work
        everything = torch.cat([value * 2 for value in cell.expected])
        cell.expected = [everything.clone() for _ in range(self.world)]

    def replace(self, cell: Cell, stream: torch.cuda.Stream) -> None:
        """Drops a tensor that may still be in flight."""
        del stream
        self.cells[self.cells.index(cell)] = self.new_cell()

    def run(self) -> None:
        steps = [self.compute, self.compute, self.all_reduce, self.broadcast, self.gather_and_forget, self.replace]
        for _ in range(_STEPS):
            cell = self.dice.choice(self.cells)
            step = self.dice.choice(steps)
            if step == self.gather_and_forget and cell.expected[0].numel() > 100_000:
                step = self.all_reduce
            step(cell, self.dice.choice(self.streams))

    def check(self) -> None:
        for number, cell in enumerate(self.cells):
            self.use(cell, cell.stream)
            cell.stream.synchronize()
            assert torch.equal(cell.tensor.cpu(), cell.expected[self.rank]), f"seed {self.seed}, tensor {number}"


def play(rank: int, world: int, seeds: range, delays: str) -> int:
    with delayed(delays):
        for seed in seeds:
            program = Program(seed, rank, world)
            program.run()
            program.check()
    return len(seeds)


@pytest.mark.parametrize("delays", DELAYS)
@pytest.mark.parametrize("world", [2, 4])
def test_random_programs(ranks: Ranks, world: int, delays: str, long: bool) -> None:
    count = 200 if long else 25
    ranks.run(play, range(count), delays, world=world, timeout=110.0)
