"""What is compared: a trial is a function that runs on a rank and returns what depends on nothing but its arguments.

Imported by the parent and by the ranks. Must not know which backend it runs on.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.distributed_c10d import _get_default_group

from tests.multirank._harness import context
from tests.multirank._ops import OPERATIONS, REDUCING, Case, Result, Site
from tests.multirank._reference import DTYPES, has_meaning

from .. import test_capture, test_coalescing, test_stream_programs, test_training
from .._staged import Staged, expected_results, wrong
from ..test_matrix import nccl_can_move, nccl_can_reduce

_COUNTS = (77, 1, 20_011)
_FEW_DTYPES = (torch.float32, torch.bfloat16, torch.int64)
_REPLAY_SEED = 5


@dataclass(frozen=True, kw_only=True)
class Trial:
    area: str
    name: str
    play: Callable[..., Any]  # play(rank, world, *args)
    args: tuple[Any, ...] = ()
    bound: bool = False  # the default group gets a device_id

    def __str__(self) -> str:
        return f"{self.area}: {self.name}"


class WrongResult(AssertionError):
    """The numbers are not those of the reference."""


# --- operations


def _digest(results: list[Result]) -> int:
    digest = 0
    for result in results:
        digest = zlib.crc32(result.actual.cpu().reshape(-1).view(torch.uint8).numpy().data, digest)
    return digest


def _checked(errors: list[str | None]) -> None:
    found = [error for error in errors if error]
    if found:
        raise WrongResult(found[0])


def run_operation(rank: int, world: int, case: Case) -> int:
    # Not as strict as our own tests: another order of summation is right, too. Whether bits agree is compared anyway.
    site = Site(case, rank, world, strict=False, device="cuda")
    results = OPERATIONS[case.op](site)
    site.wait()
    _checked([result.error() for result in results])
    return _digest(results)


def capture_operation(rank: int, world: int, case: Case) -> int:
    site = Staged(case, rank, world, strict=False, device="cuda")
    site.run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = site.run()
    expected = expected_results(site, _REPLAY_SEED)
    site.refill(_REPLAY_SEED)
    graph.replay()
    _checked(list(wrong(results, expected)))
    return _digest(results)


def _operations(world: int, dtypes: tuple[torch.dtype, ...], sizes: tuple[int, ...]) -> Iterator[Case]:
    for op, dtype, is_async in product(OPERATIONS, dtypes, (False, True)):
        reductions = ("SUM", "AVG", "PREMUL_SUM", "PRODUCT", "MIN", "MAX") if op in REDUCING else ("",)
        for reduction in reductions:
            if op in REDUCING and not has_meaning(dtype, reduction):
                continue
            for count in (0,) if op == "barrier" else sizes:
                counts = tuple(count + 7 * r for r in range(world)) if op.endswith("_uneven") else (count,)
                case = Case(op=op, dtype=dtype, reduction=reduction, counts=counts, root=world - 1, is_async=is_async)
                if nccl_can_reduce(case) if op in REDUCING else nccl_can_move(case):
                    yield case


# --- groups


def _sum_over(group: Any, value: float) -> float:
    tensor = torch.full((9,), value, device="cuda")
    dist.all_reduce(tensor, group=group)
    return float(tensor[8])


def new_groups(rank: int, world: int) -> list[float]:
    sums = []
    for members in (list(range(world)), [0], list(range(0, world, 2)), [world - 1, 0]):
        group = dist.new_group(sorted(set(members)))
        if rank in members:
            sums.append(_sum_over(group, rank + 1.0))
    return [*sums, _sum_over(None, 1.0)]


def split_groups(rank: int, world: int) -> list[float]:
    _sum_over(None, 1.0)
    evens, odds = list(range(0, world, 2)), list(range(1, world, 2))
    half = dist.split_group(split_ranks=[evens, odds])
    alone = dist.split_group(split_ranks=[[r] for r in range(world)])
    return [_sum_over(half, rank + 1.0), _sum_over(alone, rank + 1.0), _sum_over(None, 1.0)]


def destroy_and_renew(rank: int, world: int) -> list[float]:
    sums = []
    for number in range(5):
        group = dist.new_group(list(range(world)))
        sums.append(_sum_over(group, number + rank))
        dist.destroy_process_group(group)
    return [*sums, _sum_over(None, 1.0)]


def mesh(rank: int, world: int) -> list[float]:
    grid = init_device_mesh("cuda", (2, world // 2), mesh_dim_names=("rows", "columns"))
    return [_sum_over(grid.get_group(name), rank + 1.0) for name in ("rows", "columns")]


def objects(rank: int, world: int) -> list[Any]:
    everyone: list[Any] = [None] * world
    dist.all_gather_object(everyone, {"rank": rank, "text": "x" * rank * 100})
    some: list[Any] = ["a", 1] if rank == 0 else [None, None]
    dist.broadcast_object_list(some, src=0, device=torch.device("cuda"))
    return [everyone, some]


# --- whole programs: None is returned when all assertions hold


def stream_programs(rank: int, world: int, first: int, count: int) -> None:
    for seed in range(first, first + count):
        program = test_stream_programs.Program(seed, rank, world)
        program.run()
        program.check()


def everything_in_a_block(rank: int, world: int, is_async: bool, delays: str) -> None:
    _checked(list(test_coalescing.everything_in_a_block(rank, world, is_async, delays)))


def wait_across_a_capture(rank: int, world: int) -> None:
    test_capture.wait_across(rank, world)


def two_gpus_in_one_call(rank: int, world: int) -> str:
    """Refused before anything is sent, and the group goes on."""
    first = torch.ones(4, device="cuda:0")
    dist.all_reduce(first)
    try:
        dist.all_gather_single(torch.ones(4 * world, device="cuda:1"), first)
    except (ValueError, RuntimeError):
        dist.all_reduce(first)
        return "refused"
    return "accepted"


def abort_and_renew(rank: int, world: int) -> list[float]:
    before = _sum_over(None, 1.0)
    torch.cuda.synchronize()
    _get_default_group().abort()
    dist.destroy_process_group()
    context().init("after an abort")
    return [before, _sum_over(None, 2.0)]


def trials(world: int, programs: int, delays: str) -> list[Trial]:
    """`delays`: for those that set them by themselves; whoever plays the others does it for them. All data types and
    sizes are tried once, at two ranks and without delays.
    """
    whole = world == 2 and delays == "none"
    dtypes, sizes = (tuple(DTYPES), _COUNTS) if whole else (_FEW_DTYPES, _COUNTS[:1])
    found: list[Trial] = []
    for case in _operations(world, dtypes, sizes):
        area = "coalesced" if "coalesced" in case.op or case.op.startswith("batch") else "operations"
        found.append(Trial(area=area, name=str(case), play=run_operation, args=(case,)))
    found += [
        Trial(area="capture", name=str(case), play=capture_operation, args=(case,))
        for case in _operations(world, (torch.float32,), _COUNTS[:1])
    ]

    def add(area: str, play: Callable[..., Any], *args: Any, bound: bool = False) -> None:
        name = " ".join([play.__name__, *map(str, args), *(["bound device"] if bound else [])])
        found.append(Trial(area=area, name=name, play=play, args=args, bound=bound))

    add("capture", test_capture.capture_several, delays)
    add("capture", test_capture.forget_in_capture, delays)
    add("capture", test_capture.first_operation_is_captured)
    add("capture", wait_across_a_capture)
    add("capture", test_capture.capture_beside)
    for is_async in (False, True):
        add("capture", test_capture.capture_block, is_async)
        add("coalesced", everything_in_a_block, is_async, delays)
        add("coalesced", test_coalescing.mixed, is_async)
    add("coalesced", test_coalescing.batch, delays)
    add("coalesced", test_coalescing.on_two_streams)
    for then in ("same group", "other group", "destroy"):
        add("coalesced", test_coalescing.leave_by_exception, then)
    for bound in (False, True):
        for play in (new_groups, destroy_and_renew, objects):
            add("groups", play, bound=bound)
    add("groups", mesh)  # it binds a device by itself
    add("groups", split_groups, bound=True)  # torch asks for it
    add("groups", abort_and_renew)
    add("groups", two_gpus_in_one_call)
    for kind in ("ddp", "fsdp2"):
        add("training", test_training.train, kind, delays)
    add("training", test_training.use_dtensor)
    add("training", test_training.use_functional)
    for first in range(0, programs, 5):
        add("stream programs", stream_programs, first, 5)
    return found
