"""Collectives of Python objects, which ride on the tensor ones with sizes that differ from rank to rank."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from ._harness import Ranks


def _object(rank: int) -> dict[str, Any]:
    return {"rank": rank, "text": "x" * (rank * 1000), "list": list(range(rank)), "tensor": torch.full((rank,), 7.0)}


def _same(found: Any, rank: int) -> bool:
    wanted = _object(rank)
    return torch.equal(found.pop("tensor"), wanted.pop("tensor")) and bool(found == wanted)


def check_objects(rank: int, world: int) -> None:
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, _object(rank))
    assert all(_same(found, r) for r, found in enumerate(everyone))

    root = world - 1
    gathered: list[Any] | None = [None] * world if rank == root else None
    dist.gather_object(_object(rank), gathered, dst=root)
    assert all(_same(found, r) for r, found in enumerate(gathered or []))

    some: list[Any] = [_object(root), "second"] if rank == root else [None, None]
    dist.broadcast_object_list(some, src=root)
    assert _same(some[0], root)
    assert some[1] == "second"

    mine: list[Any] = [None]
    dist.scatter_object_list(mine, [_object(r) for r in range(world)] if rank == 0 else None, src=0)
    assert _same(mine[0], rank)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_objects(ranks: Ranks, world: int) -> None:
    ranks.run(check_objects, world=world)


def check_object_lists(rank: int, world: int) -> None:
    if rank == 0:
        dist.send_object_list([_object(3), None, "end"], dst=1)
    elif rank == 1:
        found: list[Any] = [None, None, None]
        dist.recv_object_list(found, src=0)
        assert _same(found[0], 3)
        assert found[1:] == [None, "end"]


def test_object_lists_point_to_point(ranks: Ranks) -> None:
    ranks.run(check_object_lists, world=2)
