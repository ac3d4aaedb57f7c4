"""The heat equation on a 2-D grid that is spread over all ranks: each writes its edges into its neighbours' memory.

    torchrun --standalone --nproc-per-node 4 examples/rma_halo.py [--cells 24] [--steps 200]

A rank's block has a frame of one cell, the halo, for copies of its neighbours' edges. In each step a rank puts its
four edges, rows and columns alike, where its neighbours have their halos, with a signal behind each; and it goes on
when theirs have come. Nobody receives anything, and no step is a collective. At the end rank 0 fetches all blocks and
compares them with a grid that one process has computed.
"""

import argparse
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from pycomms import rma

CONDUCTION = 0.2


def grid_of(ranks: int) -> tuple[int, int]:
    """Rows and columns of ranks, as square as it goes."""
    rows = max(r for r in range(1, int(ranks**0.5) + 1) if ranks % r == 0)
    return rows, ranks // rows


def diffuse(now: Tensor, then: Tensor) -> None:
    """One step: the inner cells of `then` from all cells of `now`."""
    middle = now[1:-1, 1:-1]
    around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
    then[1:-1, 1:-1] = middle + CONDUCTION * (around - 4 * middle)


def beginning(rows: int, columns: int) -> Tensor:
    """The whole grid at first, with its frame: cold, with something warm in the middle of it and a hot corner."""
    whole = torch.zeros(rows + 2, columns + 2, dtype=torch.float64)
    whole[1 + rows // 3 : 1 + 2 * rows // 3, 1 + columns // 3 : 1 + 2 * columns // 3] = 1.0
    whole[1, 1] = 100.0
    return whole


@dataclass(frozen=True)
class Neighbour:
    rank: int
    edge: Any  # index of ours that it needs
    halo: Any  # and of where it belongs in its grid


def neighbours(rank: int, rows: int, columns: int) -> list[Neighbour]:
    row, column = divmod(rank, columns)
    inner = slice(1, -1)
    sides = (
        (-1, 0, (1, inner), (-1, inner)),  # our top row belongs below the last one of the rank above
        (1, 0, (-2, inner), (0, inner)),
        (0, -1, (inner, 1), (inner, -1)),
        (0, 1, (inner, -2), (inner, 0)),
    )
    return [
        Neighbour((row + down) * columns + column + right, edge, halo)
        for down, right, edge, halo in sides
        if 0 <= row + down < rows and 0 <= column + right < columns
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=24, help="edge of a rank's block (default: 24)")
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("nccl2", timeout=timedelta(seconds=60))
    rank, (rows, columns) = dist.get_rank(), grid_of(dist.get_world_size())
    row, column = divmod(rank, columns)
    cells = args.cells
    whole = beginning(rows * cells, columns * cells)

    # Two grids, for a neighbour may be a step ahead: it writes into the other one's halo then. It is never two steps
    # ahead, because it waits for our signal of the step between.
    mine = rma.empty(2, cells + 2, cells + 2, dtype=torch.float64)
    mine[:] = whole[row * cells : row * cells + cells + 2, column * cells : column * cells + cells + 2]
    with rma.Window(mine, name="heat") as win:
        around = neighbours(rank, rows, columns)
        for step in range(args.steps):
            now, then = step % 2, (step + 1) % 2
            for other in around:
                win.put(mine[now][other.edge], other.rank, mine[now][other.halo], signal=0)
            if around:
                win.wait_signal([other.rank for other in around])
            diffuse(mine[now], mine[then])
        win.fence()

        if rank == 0:
            last = mine[args.steps % 2, 1:-1, 1:-1]  # stands for the same cells on each rank
            block = torch.empty(cells, cells, dtype=torch.float64)
            result = torch.zeros_like(whole)
            for source in range(rows * columns):
                down, right = divmod(source, columns)
                win.get(block, source, last)
                result[1 + down * cells :, 1 + right * cells :][:cells, :cells] = block
            spare = whole.clone()
            for _ in range(args.steps):
                diffuse(whole, spare)
                whole, spare = spare, whole
            torch.testing.assert_close(result, whole, rtol=0, atol=1e-12)
            shape = f"{rows} x {columns} ranks, {rows * cells} x {columns * cells} cells"
            print(f"{shape}, {args.steps} steps: as one process computes it, heat {result.sum():.6f}", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
