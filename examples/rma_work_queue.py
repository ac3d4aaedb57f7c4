"""Work that is shared out as it is done: whoever is free takes the next piece, with one `fetch_add`.

    torchrun --standalone --nproc-per-node 4 examples/rma_work_queue.py [--below 200000]

The primes below a number are counted, block by block; later blocks take longer. The next block's number is in the
memory of rank 0, which works as the others do and never answers anybody. Results are added up in its memory, too.
"""

import argparse
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from pycomms import rma

BLOCK = 2000
NEXT, PRIMES, TALLY = 0, 1, 2  # places in the window of rank 0: counters, then how often each block was taken


def count_primes(begin: int, end: int) -> int:
    numbers = torch.arange(max(begin, 2), end)
    is_prime = torch.ones(len(numbers), dtype=torch.bool)
    for divisor in range(2, int(end**0.5) + 1):
        is_prime &= (numbers % divisor != 0) | (numbers == divisor)
    return int(is_prime.sum())


def sieve(end: int) -> int:
    is_prime = torch.ones(end, dtype=torch.bool)
    is_prime[:2] = False
    for divisor in range(2, int(end**0.5) + 1):
        is_prime[divisor * divisor :: divisor] = False
    return int(is_prime.sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--below", type=int, default=200_000)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("nccl2", timeout=timedelta(seconds=60))
    rank, blocks = dist.get_rank(), -(-args.below // BLOCK)

    # Only rank 0 has memory in it: sizes may differ.
    with rma.Window(rma.empty(TALLY + blocks if rank == 0 else 0, dtype=torch.int64), name="queue") as queue:
        taken = 0
        while (block := queue.fetch_add(1, peer=0, offset=NEXT)) < blocks:
            primes = count_primes(block * BLOCK, min((block + 1) * BLOCK, args.below))
            queue.fetch_add(primes, peer=0, offset=PRIMES)
            queue.fetch_add(1, peer=0, offset=TALLY + block)
            taken += 1
        queue.fence()

        shares: list[int] = [0] * dist.get_world_size()
        dist.all_gather_object(shares, taken)
        if rank == 0:
            assert bool((queue.local[TALLY:] == 1).all()), "a block was taken twice, or by nobody"
            assert sum(shares) == blocks
            primes = int(queue.local[PRIMES])
            assert primes == sieve(args.below)
            print(f"{primes} primes below {args.below}; of {blocks} blocks the ranks took {shares}", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
