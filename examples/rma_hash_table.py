"""A hash table spread over the memory of all ranks, which all of them change at once: words are counted.

    torchrun --standalone --nproc-per-node 4 examples/rma_hash_table.py [--words 20000]

Each rank has a part of the table: cells of a key and a count. A key belongs to one rank, and to the first cell there
that is free or has it already. A cell is taken with `compare_swap`, so that only one of those who try gets it, and
counted in with `fetch_add`, so that no count is lost. The rank whose memory it is does not take part.
"""

import argparse
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from pycomms import rma

FREE = 0  # keys are greater
KEY, COUNT, WIDTH = 0, 1, 2


class HashTable:
    """Counts by key. Every method but the constructor and `close` is one-sided."""

    def __init__(self, cells: int) -> None:
        self._cells = cells
        self._win = rma.Window(rma.empty(cells, WIDTH, dtype=torch.int64), name="table")

    def add(self, key: int) -> int:
        """Counts it in. Returns how often it had come before."""
        owner, place = self._find(key, take=True)
        return int(self._win.fetch_add(1, owner, place + COUNT))

    def count(self, key: int) -> int:
        owner, place = self._find(key, take=False)
        return 0 if place < 0 else int(self._win.fetch_add(0, owner, place + COUNT))

    def own_counts(self) -> dict[int, int]:
        """Of the keys in this rank's part."""
        return {int(key): int(count) for key, count in self._win.local if key != FREE}

    def fence(self) -> None:
        self._win.fence()

    def close(self) -> None:
        self._win.close()

    def _find(self, key: int, *, take: bool) -> tuple[int, int]:
        """Its rank and offset there; -1: it is not in the table."""
        mixed = key * 0x9E3779B97F4A7C15 % 2**64  # neighbouring keys are spread
        owner, first = mixed % self._win.size, mixed >> 40
        for step in range(self._cells):
            place = (first + step) % self._cells * WIDTH
            there = self._win.compare_swap(FREE, key if take else FREE, owner, place + KEY)
            if there == key or (there == FREE and take):
                return owner, place
            if there == FREE:
                return owner, -1
        raise MemoryError(f"all {self._cells} cells of rank {owner} are taken: no place for key {key}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=20_000, help="that each rank counts (default: 20000)")
    parser.add_argument("--different", type=int, default=500, help="words there are (default: 500)")
    args = parser.parse_args()
    dist.init_process_group("nccl2", timeout=timedelta(seconds=60))
    rank = dist.get_rank()

    table = HashTable(cells=2 * args.different)
    dice = torch.Generator().manual_seed(rank)
    # Squared, so that some words are frequent and all ranks want the same cells.
    words = 1 + (torch.rand(args.words, generator=dice) ** 2 * args.different).long()
    for word in words.tolist():
        table.add(word)
    table.fence()

    expected = torch.bincount(words, minlength=args.different + 1)
    dist.all_reduce(expected)
    for word, count in table.own_counts().items():
        assert count == expected[word], f"word {word} was counted {count} times instead of {expected[word]}"
    kept = torch.tensor([len(table.own_counts()), sum(table.own_counts().values())])
    dist.all_reduce(kept)
    assert kept.tolist() == [int((expected > 0).sum()), int(expected.sum())]
    assert table.count(1) == expected[1]
    assert table.count(args.different + 1) == 0
    if rank == 0:
        print(f"{kept[1]} words, {kept[0]} of them different, counted by {dist.get_world_size()} ranks: none is lost")
    table.close()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
