"""Random programs: the same list of operations on every rank, drawn from a seed. Pure, but for the torch data types."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ._ops import MOVING, REDUCING, Case
from ._reference import DTYPES, REDUCTIONS, has_meaning

# What a draw of a size may come to, in elements, and how often. The last is several MiB.
_SIZES = ((60, 1 << 8), (25, 1 << 12), (12, 1 << 16), (3, 1 << 20))
_SEEDS = 8  # of the inputs: few, so that they are made once


@dataclass(frozen=True)
class Step:
    group: int  # index into `groups_of`
    case: Case
    drain: bool  # wait for everything in flight after this one


def groups_of(world: int) -> list[list[int]]:
    """The members of every group that a program uses: all, all in reverse duty, most, and a few."""
    everyone = list(range(world))
    return [everyone, everyone, everyone[: max(1, world - 1)], everyone[world // 2 :]]


def draw(seed: int, world: int, length: int) -> Iterator[Step]:
    dice = random.Random(seed)
    groups = groups_of(world)
    reductions = {dtype: [r for r in REDUCTIONS if has_meaning(dtype, r)] for dtype in DTYPES}
    operations = [*REDUCING, *MOVING]
    for _ in range(length):
        group = dice.randrange(len(groups))
        members = len(groups[group])
        op = dice.choice(operations)
        dtype = dice.choice(DTYPES)
        case = Case(
            op=op,
            dtype=dtype,
            reduction=dice.choice(reductions[dtype]) if op in REDUCING else "",
            counts=_counts(dice, op, dtype, members),
            root=dice.randrange(members),
            is_async=dice.random() < 0.6,
            seed=dice.randrange(_SEEDS),
        )
        yield Step(group, case, drain=dice.random() < 0.1)


def _counts(dice: random.Random, op: str, dtype: torch.dtype, members: int) -> tuple[int, ...]:
    limit = dice.choices([size for _, size in _SIZES], [weight for weight, _ in _SIZES])[0]
    if not op.endswith("_uneven"):
        return (dice.randrange(limit),)
    return tuple(dice.randrange(limit) if dice.random() < 0.8 else 0 for _ in range(members))
