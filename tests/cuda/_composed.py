"""One reduction through the backend's own methods, on either device, from inputs that both devices share: what
torch.distributed refuses before a backend sees it (products of complex numbers) included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _make_nccl_premul_sum

SHORT = (torch.int16, torch.uint16)
WHOLE = (torch.int8, torch.uint8, torch.int32, torch.uint32, torch.int64, torch.uint64)
COMPLEX = (torch.complex64, torch.complex128)
BITWISE = ("BAND", "BOR", "BXOR")
EVERY = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "PREMUL_SUM", *BITWISE)

# What NCCL cannot compute. The last: a reduction of NCCL's, so that both kinds are in one call or block.
COMPOSED: tuple[tuple[torch.dtype, str], ...] = (
    *product(SHORT, EVERY),
    *product(WHOLE, BITWISE),
    (torch.bool, "BXOR"),
    *product(COMPLEX, ("PRODUCT",)),
)
BESIDE = (torch.int64, "SUM")


@dataclass(frozen=True, kw_only=True)
class Reducing:
    op: str
    dtype: torch.dtype
    reduction: str
    count: int
    is_async: bool = False
    seed: int = 0

    def __str__(self) -> str:
        mode = "async" if self.is_async else "sync"
        return f"{self.op} {self.dtype} {self.reduction} {self.count} {mode} seed {self.seed}"


def values(dtype: torch.dtype, count: int, *seeds: int) -> torch.Tensor:
    """Any bits; of complex numbers what overflows, too, and the special ones."""
    generator = torch.Generator().manual_seed(sum(seed * 1009**place for place, seed in enumerate(seeds)))
    if dtype is torch.bool:
        return torch.randint(0, 2, (count,), generator=generator).bool()
    if dtype in COMPLEX:
        numbers = torch.randn(count, 2, dtype=torch.float64, generator=generator) * 10
        special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0])
        for place in range(0, count, 29):
            numbers[place, place % 2] = special[place % 4]
        return torch.view_as_complex(numbers).to(dtype)
    size = torch.empty(0, dtype=dtype).element_size()
    return torch.randint(0, 256, (count * size,), dtype=torch.uint8, generator=generator).view(dtype)


def op_of(reduction: str, rank: int) -> Any:
    if reduction == "PREMUL_SUM":
        return _make_nccl_premul_sum(float(rank * 3 + 2))
    return getattr(dist.ReduceOp, reduction)


class Call:
    """The tensors of one operation, its issue, and what it is to give. `stage` makes the tensors, once."""

    def __init__(self, case: Reducing, rank: int, world: int, device: str, group: Any) -> None:
        self.case, self.rank, self.world, self.device, self.group = case, rank, world, device, group
        self.root = case.seed % world
        _OPS[case.op](self)

    def mine(self, count: int, place: int = 0) -> torch.Tensor:
        return values(self.case.dtype, count, self.case.seed, self.rank, place).to(self.device)

    def empty(self, count: int) -> torch.Tensor:
        return torch.zeros(count * self.case.dtype.itemsize, dtype=torch.uint8).view(self.case.dtype).to(self.device)

    def options(self, kind: Any) -> Any:
        opts = kind()
        opts.reduceOp = op_of(self.case.reduction, self.rank)
        opts.asyncOp = self.case.is_async
        return opts

    def bits(self) -> list[torch.Tensor]:
        return [out.cpu().reshape(-1).view(torch.uint8) for out in self.outs]

    inputs: list[torch.Tensor]
    outs: list[torch.Tensor]  # what this rank is to have
    issue: Callable[[], Any]


def _all_reduce(s: Call) -> None:
    s.inputs = s.outs = [s.mine(s.case.count)]
    s.issue = lambda: s.group.allreduce(s.inputs, s.options(dist.AllreduceOptions))


def _all_reduce_coalesced(s: Call) -> None:
    s.inputs = s.outs = [s.mine(s.case.count + more, more) for more in range(3)]
    s.issue = lambda: s.group.allreduce_coalesced(s.inputs, s.options(dist.AllreduceCoalescedOptions))


def _reduce(s: Call) -> None:
    s.inputs = [s.mine(s.case.count)]
    s.outs = s.inputs if s.rank == s.root else []

    def issue() -> Any:
        opts = s.options(dist.ReduceOptions)
        opts.rootRank = s.root
        return s.group.reduce(s.inputs, opts)

    s.issue = issue


def _reduce_scatter(s: Call) -> None:
    counts = [s.case.count + 7 * rank for rank in range(s.world)]
    s.inputs = [s.mine(count, place) for place, count in enumerate(counts)]
    s.outs = [s.empty(counts[s.rank])]
    s.issue = lambda: s.group.reduce_scatter(s.outs, [s.inputs], s.options(dist.ReduceScatterOptions))


def _reduce_scatter_single(s: Call) -> None:
    s.inputs, s.outs = [s.mine(s.case.count * s.world)], [s.empty(s.case.count)]
    base = getattr(s.group, "reduce_scatter_single", None) or s.group._reduce_scatter_base
    s.issue = lambda: base(s.outs[0], s.inputs[0], s.options(dist.ReduceScatterOptions))


def _reduce_scatter_coalesced(s: Call) -> None:
    s.inputs = [s.mine((s.case.count + more) * s.world, more) for more in range(3)]
    s.outs = [s.empty(s.case.count + more) for more in range(3)]
    coalesced = s.group.reduce_scatter_tensor_coalesced
    s.issue = lambda: coalesced(s.outs, s.inputs, s.options(dist.ReduceScatterOptions))


_OPS: dict[str, Callable[[Call], None]] = {
    "all_reduce": _all_reduce,
    "all_reduce_coalesced": _all_reduce_coalesced,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_single": _reduce_scatter_single,
    "reduce_scatter_coalesced": _reduce_scatter_coalesced,
}
OPS = tuple(_OPS)


def expected(case: Reducing, rank: int, world: int, group: Any) -> list[torch.Tensor]:
    """The bits that the engine for CPU tensors gives."""
    on_cpu = Call(case, rank, world, "cpu", group)
    on_cpu.issue().wait()
    return on_cpu.bits()


def differences(case: Reducing, actual: list[torch.Tensor], wanted: list[torch.Tensor]) -> list[str]:
    pairs = zip(actual, wanted, strict=True)
    return [f"{case}: {int((a != b).sum())} of {a.numel()} bytes differ" for a, b in pairs if not torch.equal(a, b)]
