"""What is measured: operations, sizes, world sizes, and how long. Pure; imported by the driver and by every rank."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

KIB = 1 << 10
MIB = 1 << 20

#: Sizes that show every regime: latency, the small-message path, cache, memory.
DEFAULT_SIZES = (8, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
QUICK_SIZES = (8, KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB)
#: Of windows: a call, what fits the cache, and memory.
ONE_SIDED_SIZES = (8, 64 * KIB, 16 * MIB)
ELEMENT = 4  # everything is float32


class Op(str, Enum):
    """One row of the results. `size` is the bytes of the larger of the rank's two buffers."""

    ALL_REDUCE = "all_reduce"
    ALL_REDUCE_SHARED = "all_reduce_shared"  # tensors that live in shared memory
    ALL_REDUCE_ASYNC = "all_reduce_async"  # ASYNC_DEPTH in flight, then wait for all; time per operation
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    BROADCAST = "broadcast"
    ALL_TO_ALL = "all_to_all"
    REDUCE = "reduce"
    GATHER = "gather"
    SCATTER = "scatter"
    BARRIER = "barrier"
    SEND_RECV = "send_recv"  # ping-pong of neighbours; time one way
    INIT = "init"  # init_process_group and the first all_reduce
    MEMCPY = "memcpy"  # limits only: one process copies
    ADD = "add"  # limits only: one process adds two buffers
    # One-sided: rank 0 does it to the memory of rank 1, which takes no part.
    RMA_PUT = "rma_put"  # and flush
    RMA_GET = "rma_get"
    RMA_FETCH_ADD = "rma_fetch_add"
    RMA_COMPARE_SWAP = "rma_compare_swap"
    RMA_COPY = "rma_copy"  # copy_ into the mapped memory, beside copy_ into memory of one's own


ASYNC_DEPTH = 64
#: Operations whose result is a bandwidth: bytes of one buffer over time.
BANDWIDTH = frozenset({Op.MEMCPY, Op.ADD})
#: Operations that one timed call stands for, where it is not one.
PER_CALL = {Op.ALL_REDUCE_ASYNC: ASYNC_DEPTH, Op.SEND_RECV: 2}  # a ping-pong goes there and back
#: Operations on windows; all others are measured on all ranks alike.
ONE_SIDED = (Op.RMA_PUT, Op.RMA_GET, Op.RMA_FETCH_ADD, Op.RMA_COMPARE_SWAP, Op.RMA_COPY)
TWO_SIDED = tuple(op for op in Op if op not in ONE_SIDED)
#: Operations whose time does not depend on a size.
UNSIZED = frozenset({Op.BARRIER, Op.INIT, Op.RMA_FETCH_ADD, Op.RMA_COMPARE_SWAP})
#: Largest size at which the operation is worth its memory.
LARGEST = {Op.ALL_REDUCE_ASYNC: 64 * KIB}
#: Smallest size at which it measures what it is meant to.
SMALLEST = dict.fromkeys(BANDWIDTH, 64 * KIB)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One cell of the plan, measured on every contestant in turn."""

    op: Op
    size: int
    ranks: int
    hosts: int = 1

    @property
    def label(self) -> str:
        size = "" if self.op in UNSIZED else f" {format_size(self.size)}"
        return f"{self.op.value}{size}, {self.where}"

    @property
    def where(self) -> str:
        return f"{self.ranks} ranks" + (f" on {self.hosts} hosts" if self.hosts > 1 else "")


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How much is measured."""

    rounds: int
    max_rounds: int
    block_ms: float  # of one contestant's turn
    case_s: float  # a case ends early when it has taken so long
    wanted_blocks: int  # blocks of one placement that every contestant should have before a case ends early


#: However much time there is, up to the end that the driver is given.
UNTIL_THE_END = Effort(rounds=200, max_rounds=200, block_ms=20.0, case_s=3600.0, wanted_blocks=200)
QUICK = Effort(rounds=6, max_rounds=12, block_ms=10.0, case_s=15.0, wanted_blocks=4)
FULL = Effort(rounds=10, max_rounds=30, block_ms=20.0, case_s=60.0, wanted_blocks=8)


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The shape of one block: `samples` samples, each the mean of `inner` calls."""

    warmup: int
    samples: int
    inner: int


CALIBRATION = Timing(warmup=2, samples=3, inner=1)


def shape_block(call_us: float, series: int, block_ms: float) -> Timing:
    """The timing of blocks for a call that takes about `call_us`, when a block measures `series` variants in turn.

    A sample lasts at least 20 us, so that reading the clock costs less than 1 %. A block has a few samples, even where
    that takes longer than it should: one alone may be a preemption.
    """
    call_us = max(call_us, 0.05)
    inner = min(1000, max(1, round(20.0 / call_us)))
    budget = block_ms * 1000.0 / max(1, series)
    least = 3 if call_us < 5000.0 else 1
    samples = min(500, max(least, int(budget / (inner * call_us))))
    warmup = 1 if call_us > 20_000.0 else min(100, max(2, round(500.0 / call_us)))
    return Timing(warmup=warmup, samples=samples, inner=inner)


def cases(ops: tuple[Op, ...], sizes: tuple[int, ...], ranks: int, hosts: int = 1) -> list[Case]:
    """The cases of one world size in the order in which they are measured."""
    found: list[Case] = []
    for op in ops:
        op_sizes = (0,) if op in UNSIZED else tuple(s for s in sizes if SMALLEST.get(op, s) <= s <= LARGEST.get(op, s))
        found.extend(Case(op=op, size=size, ranks=ranks, hosts=hosts) for size in op_sizes)
    return found


def elements(size: int) -> int:
    """float32 elements of a buffer of about `size` bytes, at least one."""
    return max(1, size // ELEMENT)


def part_elements(size: int, world: int) -> int:
    """float32 elements of each rank's part of a buffer of about `size` bytes, at least one."""
    return max(1, size // ELEMENT // world)


def memory_needed(case: Case) -> int:
    """Bytes that one rank of one contestant holds while the case runs: its two buffers and, at most, a copy inside."""
    depth = ASYNC_DEPTH if case.op is Op.ALL_REDUCE_ASYNC else 1
    return depth * case.size * 2


def parse_size(text: str) -> int:
    """'8', '64K', '1MiB', '16m' as bytes."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmg]?)(?:i?b)?\s*", text.lower())
    if match is None:
        raise ValueError(f"not a size: {text!r} (examples: 8, 64K, 1MiB)")
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2]]


def format_size(size: int) -> str:
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift} {unit}"
    return f"{size} B"
