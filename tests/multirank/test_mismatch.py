"""Ranks that disagree about the next operation: every member raises CollectiveMismatch within 100 ms of the last call,
and the error names both sides. Nobody hangs, and the group stays failed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.distributed as dist

from ._errors import Caught, needed
from ._harness import Ranks, context

pytestmark = pytest.mark.nccl2_only("gloo does not compare what the ranks call: it hangs or computes nonsense")

_LIMIT_S = 1.0  # far from the deadline, and as for deaths: test_peer_failure.py
_ReduceOp = dist.ReduceOp


def _tensor(count: int = 10, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(count, dtype=dtype)


def _pieces(world: int, count: int = 10) -> list[torch.Tensor]:
    return [_tensor(count) for _ in range(world)]


@dataclass(frozen=True)
class Disagreement:
    """What most ranks call, what the odd one calls, and the words for both sides that the error must hold."""

    most: Callable[[int, int, bool], Any]
    odd: Callable[[int, int, bool], Any]
    words: tuple[str, str]
    # The engine counts the elements of the whole, of all ranks.
    of_the_whole: bool = False

    def told_in(self, text: str, world: int) -> bool:
        words = [str(int(word) * world) for word in self.words] if self.of_the_whole else self.words
        return all(word in text.lower() for word in words)


def _all_reduce(count: int = 10, dtype: torch.dtype = torch.float32, op: Any = _ReduceOp.SUM) -> Callable[..., Any]:
    return lambda rank, world, is_async: dist.all_reduce(_tensor(count, dtype), op=op, async_op=is_async)


def _broadcast(count: int = 10, root: int = 0) -> Callable[..., Any]:
    return lambda rank, world, is_async: dist.broadcast(_tensor(count), root, async_op=is_async)


def _reduce(root: int) -> Callable[..., Any]:
    return lambda rank, world, is_async: dist.reduce(_tensor(), root, async_op=is_async)


def _gather(root: int) -> Callable[..., Any]:
    return lambda rank, world, is_async: dist.gather(
        _tensor(), _pieces(world) if rank == root else None, root, async_op=is_async
    )


def _all_gather(count: int) -> Callable[..., Any]:
    return lambda rank, world, is_async: dist.all_gather_into_tensor(
        _tensor(count * world), _tensor(count), async_op=is_async
    )


def _reduce_scatter(count: int, op: Any = _ReduceOp.SUM) -> Callable[..., Any]:
    return lambda rank, world, is_async: dist.reduce_scatter_tensor(
        _tensor(count), _tensor(count * world), op=op, async_op=is_async
    )


def _all_to_all(count: int) -> Callable[..., Any]:
    return lambda rank, world, is_async: dist.all_to_all_single(
        _tensor(count * world), _tensor(count * world), async_op=is_async
    )


def _in_order(*calls: Callable[[int, int, bool], Any]) -> Callable[[int, int, bool], Any]:
    def issue(rank: int, world: int, is_async: bool) -> Any:
        works = [call(rank, world, is_async) for call in calls]
        for work in works:
            if work is not None:
                work.wait()

    return issue


DISAGREEMENTS = {
    "kind": Disagreement(_all_reduce(), _broadcast(), ("all_reduce", "broadcast")),
    "kind, against barrier": Disagreement(
        _all_reduce(), lambda rank, world, is_async: dist.barrier(async_op=is_async), ("all_reduce", "barrier")
    ),
    "count": Disagreement(_all_reduce(10), _all_reduce(11), ("10", "11")),
    "count, large": Disagreement(_all_reduce(3 << 20), _all_reduce(1 << 20), ("3145728", "1048576")),
    "count, small and large": Disagreement(_all_reduce(10), _all_reduce(1 << 20), ("10", "1048576")),
    "count, nothing": Disagreement(_all_reduce(0), _all_reduce(5), ("0", "5")),
    "count in broadcast": Disagreement(_broadcast(10), _broadcast(12), ("10", "12")),
    "count in all_gather": Disagreement(_all_gather(10), _all_gather(13), ("10", "13"), of_the_whole=True),
    "count in reduce_scatter": Disagreement(_reduce_scatter(10), _reduce_scatter(14), ("10", "14"), of_the_whole=True),
    "count in all_to_all": Disagreement(_all_to_all(10), _all_to_all(15), ("10", "15")),
    "dtype": Disagreement(_all_reduce(), _all_reduce(dtype=torch.int32), ("float32", "int32")),
    "dtype, another size": Disagreement(_all_reduce(), _all_reduce(dtype=torch.float64), ("float32", "float64")),
    "reduction": Disagreement(_all_reduce(), _all_reduce(op=_ReduceOp.MAX), ("sum", "max")),
    "reduction in reduce_scatter": Disagreement(
        _reduce_scatter(10), _reduce_scatter(10, _ReduceOp.MIN), ("sum", "min")
    ),
    "root": Disagreement(_broadcast(root=0), _broadcast(root=1), ("root 0", "root 1")),
    "root of reduce": Disagreement(_reduce(0), _reduce(1), ("root 0", "root 1")),
    "root of gather": Disagreement(_gather(0), _gather(1), ("root 0", "root 1")),
    "order": Disagreement(
        _in_order(_all_reduce(), _broadcast()), _in_order(_broadcast(), _all_reduce()), ("all_reduce", "broadcast")
    ),
}


def check_mismatch(rank: int, world: int, name: str, is_async: bool) -> tuple[Caught, Caught]:
    disagreement = DISAGREEMENTS[name]
    odd = world - 1
    dist.all_reduce(_tensor())  # everyone is connected
    context().meet("connected")  # between hosts a failure may come before the data of what others have ended already
    call = disagreement.odd if rank == odd else disagreement.most

    def issue() -> None:
        work = call(rank, world, is_async)
        if work is not None:
            work.wait()

    first = needed(issue)
    return first, needed(lambda: dist.all_reduce(_tensor()))


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("name", DISAGREEMENTS)
def test_all_members_raise_and_name_both_sides(ranks: Ranks, name: str, world: int, is_async: bool) -> None:
    answers = ranks.run(check_mismatch, name, is_async, world=world, timeout=30.0)
    last_call = max(first.called_ns for first, _ in answers)
    for rank, (first, later) in enumerate(answers):
        assert first.kind == "CollectiveMismatch", f"rank {rank}: {first}"
        assert "DistBackendError" in first.bases
        assert DISAGREEMENTS[name].told_in(first.text, world), f"rank {rank}: {first.text}"
        assert world - 1 in first.ranks, f"rank {rank}: {first}"
        assert later.kind == "CollectiveMismatch", f"rank {rank}, a later operation: {later}"
        seconds = (first.raised_ns - last_call) / 1e9
        assert seconds < _LIMIT_S, f"rank {rank} raised {seconds * 1e3:.0f} ms after the last call"


def check_mismatch_in_a_subgroup(rank: int, world: int) -> Caught | None:
    """The other groups of the same processes go on."""
    pair = dist.new_group([0, 1])
    caught = None
    if isinstance(pair, dist.ProcessGroup):
        caught = needed(lambda: dist.all_reduce(_tensor(10 + rank), group=pair))
    tensor = _tensor()
    dist.all_reduce(tensor)
    assert tensor[0] == world
    return caught


def test_other_groups_are_not_harmed(ranks: Ranks) -> None:
    answers = ranks.run(check_mismatch_in_a_subgroup, world=3)
    assert [caught and caught.kind for caught in answers] == ["CollectiveMismatch", "CollectiveMismatch", None]
