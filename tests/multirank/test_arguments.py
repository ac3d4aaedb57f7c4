"""Wrong arguments on one rank: ValueError or TypeError there, before anything is sent. The other ranks never notice,
and the next operation works on all: the sequence is not consumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _make_nccl_premul_sum
from torch.distributed.distributed_c10d import _get_default_group

from ._errors import Caught, needed
from ._harness import Ranks

if TYPE_CHECKING:
    from collections.abc import Callable

_F = torch.ones
_WORLD = 3
_SAME = torch.ones(4)


def _strided() -> torch.Tensor:
    return torch.ones(6, 6)[:, ::2]


@dataclass(frozen=True)
class Mistake:
    call: Callable[[], Any]
    kinds: tuple[str, ...] = ("ValueError",)
    word: str = ""


def _short() -> torch.Tensor:
    """A view of 400 bytes over a storage that has 40 by now."""
    tensor = torch.ones(100)
    tensor.untyped_storage().resize_(40)
    return tensor


def _premul(factor: float | torch.Tensor) -> Any:
    return _make_nccl_premul_sum(factor)


def _own_rank() -> int:
    return dist.get_rank()


EITHER = ("ValueError", "TypeError")
MISTAKES = {
    "all_reduce, not contiguous": Mistake(lambda: dist.all_reduce(_strided()), word="contiguous"),
    "all_reduce, AVG of bool": Mistake(
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.bool), op=dist.ReduceOp.AVG), ("TypeError",)
    ),
    "all_reduce, BAND of floats": Mistake(lambda: dist.all_reduce(_F(4), op=dist.ReduceOp.BAND), EITHER),
    "all_reduce, MAX of complex": Mistake(
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.complex64), op=dist.ReduceOp.MAX), EITHER
    ),
    "all_reduce, not a tensor": Mistake(lambda: dist.all_reduce(cast("torch.Tensor", [1, 2])), ("TypeError",)),
    "broadcast, not contiguous": Mistake(lambda: dist.broadcast(_strided(), 0), word="contiguous"),
    "broadcast, root outside the group": Mistake(lambda: dist.broadcast(_F(4), _WORLD + 4)),
    "reduce, root outside the group": Mistake(lambda: dist.reduce(_F(4), _WORLD + 4)),
    "all_gather, list too short": Mistake(lambda: dist.all_gather([_F(4)] * (_WORLD - 1), _F(4))),
    "all_gather, list too long": Mistake(lambda: dist.all_gather([_F(4) for _ in range(_WORLD + 1)], _F(4))),
    "all_gather, data types differ": Mistake(
        lambda: dist.all_gather([torch.ones(4, dtype=torch.int32) for _ in range(_WORLD)], _F(4)), EITHER
    ),
    "all_gather, same output twice": Mistake(lambda: dist.all_gather([_SAME, _F(4), _SAME], _F(4)), word="memory"),
    "all_gather_into_tensor, wrong size": Mistake(lambda: dist.all_gather_into_tensor(_F(4 * _WORLD + 1), _F(4))),
    "all_gather_into_tensor, data types differ": Mistake(
        lambda: dist.all_gather_into_tensor(torch.ones(4 * _WORLD, dtype=torch.int32), _F(4)), EITHER
    ),
    "gather, list too short on the root": Mistake(
        lambda: dist.gather(_F(4), [_F(4)] * (_WORLD - 1), dst=_own_rank()), EITHER
    ),
    "gather, no list on the root": Mistake(lambda: dist.gather(_F(4), None, dst=_own_rank())),
    "gather, a list elsewhere": Mistake(
        lambda: dist.gather(_F(4), [_F(4) for _ in range(_WORLD)], dst=(_own_rank() + 1) % _WORLD)
    ),
    "scatter, list too short on the root": Mistake(lambda: dist.scatter(_F(4), [_F(4)], src=_own_rank()), EITHER),
    "scatter, shapes differ": Mistake(
        lambda: dist.scatter(_F(4), [_F(5) for _ in range(_WORLD)], src=_own_rank()), EITHER
    ),
    "reduce_scatter, list too short": Mistake(lambda: dist.reduce_scatter(_F(4), [_F(4)] * (_WORLD - 1)), EITHER),
    "reduce_scatter_tensor, wrong size": Mistake(lambda: dist.reduce_scatter_tensor(_F(4), _F(4 * _WORLD - 1))),
    "all_to_all, list too short": Mistake(lambda: dist.all_to_all([_F(4)], [_F(4)] * _WORLD), EITHER),
    "all_to_all_single, splits do not add up": Mistake(
        lambda: dist.all_to_all_single(_F(6), _F(6), [2, 2, 2], [1, 2, 2]), word="split"
    ),
    "all_to_all_single, too few splits": Mistake(lambda: dist.all_to_all_single(_F(6), _F(6), [3, 3], [2, 2, 2])),
    "all_to_all_single, does not divide": Mistake(lambda: dist.all_to_all_single(_F(7), _F(7)), word="divide"),
    "all_to_all_single, no dimension": Mistake(
        lambda: dist.all_to_all_single(torch.tensor(1.0), torch.tensor(1.0)), word="dimension"
    ),
    "send, to itself": Mistake(lambda: dist.send(_F(4), _own_rank())),
    "send, rank outside the group": Mistake(lambda: dist.send(_F(4), _WORLD + 4)),
    "send, not contiguous": Mistake(lambda: dist.send(_strided(), (_own_rank() + 1) % _WORLD), word="contiguous"),
    "recv, not contiguous": Mistake(lambda: dist.recv(_strided(), (_own_rank() + 1) % _WORLD), word="contiguous"),
    "recv, rank outside the group": Mistake(lambda: dist.recv(_F(4), _WORLD + 4)),
    "all_reduce_coalesced, data types differ in layout": Mistake(
        lambda: _get_default_group().allreduce_coalesced([_F(4), _strided()]), word="contiguous"
    ),
    "all_reduce, storage too short": Mistake(
        lambda: dist.all_reduce(_short()), word="needs 400 bytes and the storage has 40"
    ),
    "send, storage too short": Mistake(lambda: dist.send(_short(), (_own_rank() + 1) % _WORLD), word="storage"),
    "all_gather, storage of an output too short": Mistake(
        lambda: dist.all_gather([_F(100), _short(), _F(100)], _F(100)), word="'output' reaches past"
    ),
    "all_gather_into_tensor, storage of the input too short": Mistake(
        lambda: dist.all_gather_into_tensor(_F(300), _short()), word="'input' reaches past"
    ),
    "all_to_all_single, storage of the output too short": Mistake(
        lambda: dist.all_to_all_single(_short(), _F(100), [40, 30, 30], [40, 30, 30]), word="'output' reaches past"
    ),
    "all_reduce, PREMUL_SUM of an integer that is no double": Mistake(
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.int64), op=_premul(torch.tensor(2**53 + 1))), word="2^53"
    ),
    "all_reduce, PREMUL_SUM of a negative one": Mistake(
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.int64), op=_premul(torch.tensor(-(2**53) - 1))), word="2^53"
    ),
    "all_reduce, PREMUL_SUM of a float that is no int64": Mistake(
        lambda: dist.all_reduce(torch.ones(4, dtype=torch.int64), op=_premul(1e300)), word="2^53"
    ),
    "all_reduce, PREMUL_SUM of a complex factor": Mistake(
        lambda: dist.all_reduce(_F(4), op=_premul(torch.tensor(2j))), word="real number"
    ),
    "reduce_scatter_tensor, PREMUL_SUM of a complex factor": Mistake(
        lambda: dist.reduce_scatter_tensor(_F(4), _F(4 * _WORLD), op=_premul(torch.tensor(2j))), word="real number"
    ),
}


def check_mistakes(rank: int, world: int) -> dict[str, Caught]:
    found = {}
    for number, (name, mistake) in enumerate(MISTAKES.items()):
        if rank == number % world:
            found[name] = needed(mistake.call)
        tensor = torch.full((3,), float(rank))
        dist.all_reduce(tensor)
        if tensor[0] != world * (world - 1) / 2:
            raise AssertionError(f"after {name}: {tensor}")
    return found


@pytest.mark.nccl2_only("gloo issues some of these and reports others as RuntimeError")
def test_a_wrong_argument_is_refused_here_and_harms_nobody(ranks: Ranks) -> None:
    caught = {name: error for answer in ranks.run(check_mistakes, world=_WORLD) for name, error in answer.items()}
    problems = []
    for name, mistake in MISTAKES.items():
        if not set(caught[name].bases) & set(mistake.kinds):
            problems.append(f"{name}: {caught[name].kind}: {caught[name].text}")
        elif mistake.word not in caught[name].text:
            problems.append(f"{name}: {mistake.word!r} is not in: {caught[name].text}")
    assert not problems, "\n".join(problems)


def check_dense_layouts(rank: int, world: int) -> None:
    """Dense layouts other than row-major pass: they are moved in memory order, the same on all ranks."""
    images = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
    wanted = images * world
    images = images.to(memory_format=torch.channels_last)
    dist.all_reduce(images)
    assert torch.equal(images, wanted)
    columns = torch.full((4, 6), float(rank)).t()
    dist.broadcast(columns, world - 1)
    assert torch.equal(columns, torch.full((6, 4), float(world - 1)))


@pytest.mark.nccl2_only("gloo takes row-major tensors only")
def test_dense_layouts_pass(ranks: Ranks) -> None:
    ranks.run(check_dense_layouts, world=2)
