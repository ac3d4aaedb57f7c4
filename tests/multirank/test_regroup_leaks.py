"""A group that regroups over and over holds no more in the end than in the beginning. `--long`: a thousand times."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
import torch
import torch.distributed as dist

from . import _member_steps as steps
from ._harness import Ranks
from ._holdings import Holdings, shared_memory
from ._members import Members

pytestmark = [
    pytest.mark.nccl2_only("gloo regroups through a store, and leaves torch's tables as they were"),
    pytest.mark.needs_torch("2.14", "groups that change their size"),
]

_WARM_UP = 10
_SETTLE_S = 5.0
_PAGES_PER_REGROUP = 1.0  # of memory that is touched: less than anything that a regroup could forget
TORCH_KEEPS_NOTHING = {"TORCH_FR_BUFFER_SIZE": "0"}
"""Its own recorder, on by itself with torch 2.15, keeps the last 2,000 operations."""


def holdings() -> Holdings:
    return Holdings.now()


def holdings_at_last(before: Holdings) -> Holdings:
    """The threads of the last regroup may be about to end."""
    deadline = time.monotonic() + _SETTLE_S
    while (now := Holdings.now()).threads > before.threads and time.monotonic() < deadline:
        os.sched_yield()
    return now


def make_another_group() -> None:
    group: Any = dist.new_group(list(range(dist.get_world_size())))
    dist.all_reduce(torch.ones(1), group=group)


@pytest.mark.parametrize("kind", ["identity", "shrink and grow", "with a subgroup"])
def test_nothing_is_left_of_old_generations(ranks: Ranks, long: bool, kind: str) -> None:
    count = 1000 if long else 50
    shared_before = shared_memory()
    with Members(ranks, 3, timeout=30.0 + count, env=TORCH_KEEPS_NOTHING) as members:
        members.init(range(3))
        if kind == "with a subgroup":
            members.ask(range(3), make_another_group).values()
        before: dict[int, Holdings] = {}
        for number in range(_WARM_UP + count):
            if number == _WARM_UP:
                before = members.ask(range(3), holdings).values()
            if kind == "shrink and grow":
                members.regroup([0, 2]).values()
            members.regroup(range(3)).values()
            assert set(members.ask(range(3), steps.total).values().values()) == {steps.total_of(3)}
        members.order_each(holdings_at_last, {number: (before[number],) for number in range(3)})
        after = members.answers(range(3)).values()
    for number in range(3):
        assert after[number].descriptors <= before[number].descriptors, number
        assert after[number].threads <= before[number].threads, number
        assert after[number].mappings <= before[number].mappings, number
        assert after[number].pages - before[number].pages <= _PAGES_PER_REGROUP * count + 100, number
    assert shared_memory() <= shared_before
