"""What all ranks of all contestants do alike."""

from __future__ import annotations

import json

import torch
import torch.distributed as dist

from pycomms.bench.protocol import Link

_MESSAGE_BYTES = 16 << 20  # of the all_reduce in whose middle a rank is killed
_VERIFIED_ELEMENTS = 1 << 18


_ballast: list[torch.Tensor] = []


def touch(resident: int) -> None:
    """Makes the process as large as a training process, in pages that are really there."""
    _ballast.append(torch.ones(resident // 8, dtype=torch.float64))


def reduce_until_it_raises(link: Link) -> None:
    """all_reduce after all_reduce. Tells the parent when they are under way; returns only when the parent is gone."""
    tensor = torch.ones(_MESSAGE_BYTES // 4)
    dist.all_reduce(tensor)
    link.send(json.dumps({"reducing": 1}))
    while link.quiet():
        tensor.fill_(1.0)
        dist.all_reduce(tensor)


def verified_all_reduce() -> None:
    """Raises unless the result is the one that the ranks of the group give."""
    rank, world = dist.get_rank(), dist.get_world_size()
    tensor = torch.full((_VERIFIED_ELEMENTS,), float(rank + 1))
    dist.all_reduce(tensor)
    if not bool(tensor.eq(world * (world + 1) / 2).all()):
        raise RuntimeError(f"rank {rank} of {world}: the first all_reduce is wrong: it begins with {float(tensor[0])}")
