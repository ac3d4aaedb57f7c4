"""Every collective operation as a check: issue it once with the inputs of `Site`, and say which tensors came out and
what they should hold. Runs on a rank. One small function per operation; the matrix and the random programs share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _make_nccl_premul_sum
from torch.distributed.distributed_c10d import _coalescing_manager

from ._reference import Exact, Expected, Inputs, premul_factor, reduced


@dataclass(frozen=True, kw_only=True)
class Case:
    """One operation of a program. `counts` has an element count per rank; even operations use the first."""

    op: str
    dtype: torch.dtype
    reduction: str = ""
    counts: tuple[int, ...]
    root: int = 0
    is_async: bool = False
    seed: int = 0

    def __str__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        mode = "async" if self.is_async else "sync"
        return " ".join(filter(None, [self.op, dtype, self.reduction, f"{self.counts} root {self.root} {mode}"]))


@dataclass(frozen=True)
class Result:
    actual: torch.Tensor
    expected: Expected
    start: int = 0
    shared: bool = False  # every rank must have got the same bits

    def error(self) -> str | None:
        return self.expected.error(self.actual.cpu(), self.start)


@dataclass
class Site:
    """Where a case is run: this rank's place in the group. The results hold once `wait` has returned."""

    case: Case
    rank: int
    world: int
    group: dist.ProcessGroup | None = None
    strict: bool = True
    device: str = "cpu"
    pending: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.inputs = Inputs(self.case.dtype, self.case.reduction, self.case.seed)

    @property
    def count(self) -> int:
        return self.case.counts[0]

    @property
    def root(self) -> int:
        """The root's global rank, which is what torch.distributed wants to hear."""
        return self.global_rank(self.case.root)

    @property
    def is_root(self) -> bool:
        return self.rank == self.case.root

    def global_rank(self, rank: int) -> int:
        return rank if self.group is None else dist.get_global_rank(self.group, rank)

    def mine(self, count: int, start: int = 0) -> torch.Tensor:
        return self.inputs.take(self.rank, start, count).to(self.device)

    def empty(self, count: int) -> torch.Tensor:
        """An output, filled with something that is not the result."""
        filled = torch.empty(count, dtype=self.case.dtype)
        filled.view(torch.uint8).fill_(1)
        return filled.to(self.device)

    def reduction(self) -> Any:
        if self.case.reduction == "PREMUL_SUM":
            return _make_nccl_premul_sum(float(premul_factor(self.rank)))
        return getattr(dist.ReduceOp, self.case.reduction)

    def call(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        work = operation(*args, group=self.group, async_op=self.case.is_async, **kwargs)
        if self.case.is_async:
            self.pending.append(work)

    def wait(self) -> None:
        for work in self.pending:
            work.wait()
        self.pending.clear()

    def from_rank(self, actual: torch.Tensor, rank: int, start: int = 0, shared: bool = False) -> Result:
        return Result(actual, Exact(self.inputs.period(rank)), start, shared)

    def reduced(self, actual: torch.Tensor, start: int = 0, shared: bool = False) -> Result:
        case = self.case
        return Result(actual, reduced(case.dtype, case.reduction, self.world, case.seed, self.strict), start, shared)


Operation = Callable[[Site], list[Result]]


def broadcast(s: Site) -> list[Result]:
    tensor = s.mine(s.count)
    s.call(dist.broadcast, tensor, src=s.root)
    return [s.from_rank(tensor, s.case.root, shared=True)]


def all_reduce(s: Site) -> list[Result]:
    tensor = s.mine(s.count)
    s.call(dist.all_reduce, tensor, op=s.reduction())
    return [s.reduced(tensor, shared=True)]


def reduce(s: Site) -> list[Result]:
    tensor = s.mine(s.count)
    s.call(dist.reduce, tensor, dst=s.root, op=s.reduction())
    return [s.reduced(tensor)] if s.is_root else []


def all_gather(s: Site) -> list[Result]:
    out = [s.empty(s.count) for _ in range(s.world)]
    s.call(dist.all_gather, out, s.mine(s.count))
    return [s.from_rank(tensor, rank, shared=True) for rank, tensor in enumerate(out)]


def all_gather_uneven(s: Site) -> list[Result]:
    out = [s.empty(count) for count in s.case.counts]
    s.call(dist.all_gather, out, s.mine(s.case.counts[s.rank]))
    return [s.from_rank(tensor, rank, shared=True) for rank, tensor in enumerate(out)]


def all_gather_into_tensor(s: Site) -> list[Result]:
    out = s.empty(s.count * s.world)
    s.call(dist.all_gather_into_tensor, out, s.mine(s.count))
    return [s.from_rank(part, rank, shared=True) for rank, part in enumerate(_parts(out, s.world))]


def gather(s: Site) -> list[Result]:
    out = [s.empty(s.count) for _ in range(s.world)] if s.is_root else None
    s.call(dist.gather, s.mine(s.count), out, dst=s.root)
    return [s.from_rank(tensor, rank) for rank, tensor in enumerate(out or [])]


def gather_into_tensor(s: Site) -> list[Result]:
    out = s.empty(s.count * s.world) if s.is_root else None
    s.call(dist.gather_into_tensor, s.mine(s.count), out, dst=s.root)
    return [] if out is None else [s.from_rank(part, rank) for rank, part in enumerate(_parts(out, s.world))]


def scatter(s: Site) -> list[Result]:
    out = s.empty(s.count)
    pieces = [s.mine(s.count, rank * s.count) for rank in range(s.world)] if s.is_root else None
    s.call(dist.scatter, out, pieces, src=s.root)
    return [s.from_rank(out, s.case.root, s.rank * s.count)]


def reduce_scatter(s: Site) -> list[Result]:
    return _reduce_scatter(s, [s.count] * s.world)


def reduce_scatter_uneven(s: Site) -> list[Result]:
    return _reduce_scatter(s, list(s.case.counts))


def _reduce_scatter(s: Site, counts: list[int]) -> list[Result]:
    starts = _starts(counts)
    out = s.empty(counts[s.rank])
    pieces = [s.mine(count, start) for start, count in zip(starts, counts, strict=True)]
    s.call(dist.reduce_scatter, out, pieces, op=s.reduction())
    return [s.reduced(out, starts[s.rank])]


def reduce_scatter_tensor(s: Site) -> list[Result]:
    out = s.empty(s.count)
    s.call(dist.reduce_scatter_tensor, out, s.mine(s.count * s.world), op=s.reduction())
    return [s.reduced(out, s.rank * s.count)]


def all_to_all(s: Site) -> list[Result]:
    out = [s.empty(s.count) for _ in range(s.world)]
    s.call(dist.all_to_all, out, [s.mine(s.count, rank * s.count) for rank in range(s.world)])
    return [s.from_rank(tensor, rank, s.rank * s.count) for rank, tensor in enumerate(out)]


def all_to_all_uneven(s: Site) -> list[Result]:
    send, receive = _splits(s)
    out = [s.empty(count) for count in receive]
    s.call(dist.all_to_all, out, [s.mine(count, start) for start, count in zip(_starts(send), send, strict=True)])
    return _received(s, out)


def all_to_all_single(s: Site) -> list[Result]:
    out = s.empty(s.count * s.world)
    s.call(dist.all_to_all_single, out, s.mine(s.count * s.world))
    return [s.from_rank(part, rank, s.rank * s.count) for rank, part in enumerate(_parts(out, s.world))]


def all_to_all_single_uneven(s: Site) -> list[Result]:
    send, receive = _splits(s)
    out = s.empty(sum(receive))
    s.call(dist.all_to_all_single, out, s.mine(sum(send)), receive, send)
    return _received(s, list(out.split(receive)))


def send_recv(s: Site) -> list[Result]:
    """Round a ring; one rank receives first, so that it also works where a send waits for its receive."""
    if s.world == 1:
        return []
    out = s.empty(s.count)
    before, after = (s.rank - 1) % s.world, (s.rank + 1) % s.world
    mine = s.mine(s.count)
    if s.rank == 0:
        dist.recv(out, s.global_rank(before), s.group)
    dist.send(mine, s.global_rank(after), s.group)
    if s.rank != 0:
        dist.recv(out, s.global_rank(before), s.group)
    return [s.from_rank(out, before)]


def isend_irecv(s: Site) -> list[Result]:
    """From every rank to every other, one tag per sender."""
    others = [rank for rank in range(s.world) if rank != s.rank]
    out = {rank: s.empty(s.count) for rank in others}
    for rank in others:
        s.pending.append(dist.irecv(out[rank], s.global_rank(rank), s.group, tag=rank))
        s.pending.append(dist.isend(s.mine(s.count, rank), s.global_rank(rank), s.group, tag=s.rank))
    return [s.from_rank(out[rank], rank, s.rank) for rank in others]


def batch_isend_irecv(s: Site) -> list[Result]:
    others = [rank for rank in range(s.world) if rank != s.rank]
    if not others:
        return []
    out = {rank: s.empty(s.count) for rank in others}
    sends = [dist.P2POp(dist.isend, s.mine(s.count, rank), s.global_rank(rank), s.group) for rank in others]
    receives = [dist.P2POp(dist.irecv, out[rank], s.global_rank(rank), s.group) for rank in others]
    s.pending.extend(dist.batch_isend_irecv(sends + receives))
    return [s.from_rank(out[rank], rank, s.rank) for rank in others]


def barrier(s: Site) -> list[Result]:
    s.call(dist.barrier)
    return []


def all_reduce_coalesced(s: Site) -> list[Result]:
    tensors = [s.mine(s.count + extra, extra) for extra in range(3)]
    with _coalescing_manager(s.group, async_ops=s.case.is_async) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor, op=s.reduction(), group=s.group)
    _keep(s, manager)
    return [s.reduced(tensor, extra, shared=True) for extra, tensor in enumerate(tensors)]


def all_gather_into_tensor_coalesced(s: Site) -> list[Result]:
    outs = [s.empty((s.count + extra) * s.world) for extra in range(3)]
    with _coalescing_manager(s.group, async_ops=s.case.is_async) as manager:
        for extra, out in enumerate(outs):
            dist.all_gather_into_tensor(out, s.mine(s.count + extra, extra), group=s.group)
    _keep(s, manager)
    parts = [(extra, rank, p) for extra, out in enumerate(outs) for rank, p in enumerate(_parts(out, s.world))]
    return [s.from_rank(part, rank, extra, shared=True) for extra, rank, part in parts]


def reduce_scatter_tensor_coalesced(s: Site) -> list[Result]:
    outs = [s.empty(s.count + extra) for extra in range(3)]
    with _coalescing_manager(s.group, async_ops=s.case.is_async) as manager:
        for extra, out in enumerate(outs):
            pieces = s.mine((s.count + extra) * s.world)
            dist.reduce_scatter_tensor(out, pieces, op=s.reduction(), group=s.group)
    _keep(s, manager)
    return [s.reduced(out, s.rank * out.numel()) for out in outs]


def _keep(s: Site, manager: Any) -> None:
    if s.case.is_async:
        s.pending.append(manager)


def _parts(tensor: torch.Tensor, world: int) -> list[torch.Tensor]:
    each = tensor.numel() // world
    return [tensor[rank * each : (rank + 1) * each] for rank in range(world)]


def _starts(counts: list[int]) -> list[int]:
    return [sum(counts[:rank]) for rank in range(len(counts))]


def _split(s: Site, source: int, target: int) -> int:
    """Elements that go from one rank to another in an uneven exchange. Some are 0."""
    return s.case.counts[(source * 3 + target) % s.world]


def _splits(s: Site) -> tuple[list[int], list[int]]:
    everyone = range(s.world)
    return [_split(s, s.rank, other) for other in everyone], [_split(s, other, s.rank) for other in everyone]


def _received(s: Site, parts: list[torch.Tensor]) -> list[Result]:
    starts = [_starts([_split(s, rank, target) for target in range(s.world)])[s.rank] for rank in range(s.world)]
    return [s.from_rank(part, rank, starts[rank]) for rank, part in enumerate(parts)]


REDUCING: dict[str, Operation] = {
    "all_reduce": all_reduce,
    "reduce": reduce,
    "reduce_scatter": reduce_scatter,
    "reduce_scatter_uneven": reduce_scatter_uneven,
    "reduce_scatter_tensor": reduce_scatter_tensor,
    "all_reduce_coalesced": all_reduce_coalesced,
    "reduce_scatter_tensor_coalesced": reduce_scatter_tensor_coalesced,
}
MOVING: dict[str, Operation] = {
    "broadcast": broadcast,
    "all_gather": all_gather,
    "all_gather_uneven": all_gather_uneven,
    "all_gather_into_tensor": all_gather_into_tensor,
    "gather": gather,
    "scatter": scatter,
    "all_to_all": all_to_all,
    "all_to_all_uneven": all_to_all_uneven,
    "all_to_all_single": all_to_all_single,
    "all_to_all_single_uneven": all_to_all_single_uneven,
    "send_recv": send_recv,
    "isend_irecv": isend_irecv,
    "batch_isend_irecv": batch_isend_irecv,
    "all_gather_into_tensor_coalesced": all_gather_into_tensor_coalesced,
    "barrier": barrier,
}
if hasattr(dist, "gather_into_tensor"):  # torch >= 2.14
    MOVING["gather_into_tensor"] = gather_into_tensor
OPERATIONS = REDUCING | MOVING
