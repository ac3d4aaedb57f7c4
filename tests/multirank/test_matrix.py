"""Every operation x data type x reduction x size x {sync, async} at several world sizes, against a reference computed
by one process; and where all ranks get a result, all get the same bits.

A pytest item covers thousands of combinations, because starting ranks costs more than running an operation. Each
combination is checked, counted and reported on its own.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
import torch

from ._harness import Ranks, context
from ._ops import MOVING, OPERATIONS, REDUCING, Case, Result, Site
from ._reference import DTYPES, REDUCTIONS, has_meaning
from ._support import supported
from ._tally import CHECKED, Tally

WORLDS = [1, 2, 3, 4, 7]
# Around and beyond a vector; zero; and a message larger than the engine's small-message path.
SIZES = {"one": 1, "small": 77, "zero": 0, "medium": 20_011}
LARGE_BYTES = 64 << 20
_SHOWN = 20


def check_cases(rank: int, world: int, cases: list[Case], device: str = "cpu", *, strict: bool | None = None) -> Tally:
    """strict: what our engine promises is asked for, too; by default, whenever it is asked."""
    if strict is None:
        strict = context().backend == "nccl2"
    checked: Counter[str] = Counter()
    failures: list[str] = []
    digests: list[tuple[str, int]] = []
    for case in cases:
        site = Site(case, rank, world, strict=strict, device=device)
        try:
            results = OPERATIONS[case.op](site)
            site.wait()
        except (TypeError, ValueError, NotImplementedError) as error:
            # Refused on every rank alike and before anything was sent: the next case still works.
            failures.append(f"{case}: {type(error).__name__}: {error}")
            continue
        except Exception as error:
            raise RuntimeError(f"the group broke in: {case}") from error
        failures += [f"{case}: {wrong}" for wrong in map(Result.error, results) if wrong]
        digests += [(str(case), _digest(result.actual)) for result in results if result.shared]
        checked[case.op] += 1
    return Tally(dict(checked), failures, digests)


def _digest(tensor: torch.Tensor) -> int:
    return zlib.crc32(tensor.reshape(-1).view(torch.uint8).cpu().numpy().data)


def moving_cases(world: int) -> Iterator[Case]:
    for op, dtype in product(MOVING, DTYPES):
        yield from _sized(world, Case(op=op, dtype=dtype, counts=()))


def reducing_cases(world: int) -> Iterator[Case]:
    for op, dtype, reduction in product(REDUCING, DTYPES, REDUCTIONS):
        if has_meaning(dtype, reduction):
            yield from _sized(world, Case(op=op, dtype=dtype, reduction=reduction, counts=()))


def _sized(world: int, case: Case) -> Iterator[Case]:
    for number, (counts, is_async) in enumerate(product(_sizes(case.op, world), (False, True))):
        yield replace(case, counts=counts, is_async=is_async, root=number % world)


def _sizes(op: str, world: int) -> list[tuple[int, ...]]:
    if op == "barrier":
        return [(0,)]
    if not op.endswith("_uneven"):
        return [(count,) for count in SIZES.values()]
    # Small with an empty one, and large enough for two paths in one operation.
    return [tuple((rank * 37 + shift) % 101 * scale for rank in range(world)) for shift, scale in ((0, 1), (1, 199))]


def _large(world: int) -> Iterator[Case]:
    whole = {"broadcast", "all_reduce", "reduce", "send_recv"}
    left_out = {"barrier", "isend_irecv", "batch_isend_irecv"}
    for dtype, reduction in ((torch.float32, "SUM"), (torch.bfloat16, "AVG"), (torch.int64, "MAX")):
        # What only moves is bytes to the engine: one data type stands for all.
        for op in OPERATIONS if dtype is torch.float32 else REDUCING:
            if op in left_out or op.endswith("_coalesced"):
                continue
            count = LARGE_BYTES // dtype.itemsize // (1 if op in whole else world)
            counts = tuple(count + (rank * 1000 if op.endswith("_uneven") else 0) for rank in range(world))
            yield Case(op=op, dtype=dtype, reduction=reduction if op in REDUCING else "", counts=counts, root=world - 1)


def run_cases(ranks: Ranks, world: int, cases: list[Case], record: pytest.FixtureRequest, device: str = "cpu") -> None:
    asked = [case for case in cases if supported(ranks.backend, case)]
    tallies: list[Tally] = ranks.run(check_cases, asked, device, world=world, timeout=110.0)
    failures = [f"rank {rank}: {text}" for rank, tally in enumerate(tallies) for text in tally.failures]
    first = tallies[0].digests
    for rank, tally in enumerate(tallies):
        pairs = zip(first, tally.digests, strict=True)
        failures += [f"rank {rank}: {a[0]}: not the bits of rank 0" for a, b in pairs if a != b]
    assert not failures, f"{len(failures)} of {len(asked)} combinations:\n" + "\n".join(failures[:_SHOWN])
    record.config.stash[CHECKED].update(tallies[0].checked)


@pytest.mark.parametrize("world", WORLDS)
def test_moving(ranks: Ranks, world: int, request: pytest.FixtureRequest) -> None:
    run_cases(ranks, world, list(moving_cases(world)), request)


@pytest.mark.parametrize("world", WORLDS)
def test_reducing(ranks: Ranks, world: int, request: pytest.FixtureRequest) -> None:
    run_cases(ranks, world, list(reducing_cases(world)), request)


@pytest.mark.parametrize("world", [2, 4])
def test_large(ranks: Ranks, world: int, request: pytest.FixtureRequest) -> None:
    run_cases(ranks, world, list(_large(world)), request)
