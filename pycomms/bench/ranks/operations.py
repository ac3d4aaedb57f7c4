"""One table of operations for every Python contestant: which buffers, which call, and what the result must be.

A rank program brings an Endpoint, which makes one bound call per operation; the buffers may be torch tensors or numpy
arrays, for both understand what is used here. Standard library only. Must not know which library is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pycomms.bench.plan import ASYNC_DEPTH, Op, elements, part_elements

Call = Callable[[], Any]
Buffer = Any  # of float32, one-dimensional


class Unsupported(Exception):
    """This contestant has no such operation. Decided alike on every rank, before anything is sent."""


class Endpoint(Protocol):
    """A rank of the library under test. Every method but `buffer` returns a call that can be repeated."""

    rank: int
    world: int

    def buffer(self, count: int, *, shared: bool = False) -> Buffer: ...
    def all_reduce(self, data: Buffer) -> Call: ...
    def all_reduce_many(self, data: Sequence[Buffer]) -> Call: ...
    def all_gather(self, out: Buffer, part: Buffer) -> Call: ...
    def reduce_scatter(self, part: Buffer, data: Buffer) -> Call: ...
    def broadcast(self, data: Buffer) -> Call: ...
    def all_to_all(self, out: Buffer, data: Buffer) -> Call: ...
    def reduce(self, data: Buffer) -> Call: ...
    def gather(self, out: Buffer | None, part: Buffer) -> Call: ...
    def scatter(self, part: Buffer, data: Buffer | None) -> Call: ...
    def barrier(self) -> Call: ...
    def ping_pong(self, data: Buffer, peer: int) -> Call: ...
    def initialize(self) -> tuple[Call, Call]: ...


def _nothing() -> None:
    return None


@dataclass(kw_only=True)
class Operation:
    """A case made ready on one rank. The root of rooted operations is rank 0."""

    call: Call
    buffers: Sequence[Buffer] = ()
    fill: Call = _nothing  # gives the inputs values from which the result can be told
    check: Callable[[], bool] = lambda: True  # whether the result of one call is right
    before: Call | None = None  # untimed, before each call
    beside: Mapping[str, Call] = field(default_factory=dict)  # measured as well, by the name of its series
    is_passive: bool = False  # this rank calls nothing in the timed part: it is the target of others
    after: Call = _nothing  # untimed, after a block, on all ranks
    close: Call = _nothing

    def verify(self) -> bool:
        """One call with known values; leaves zeros behind, so that repeated sums stay finite."""
        self.fill()
        if self.before is not None:
            self.before()
        self.call()
        right = self.check()
        for buffer in self.buffers:
            buffer[:] = 0.0
        return right


def all_equal(buffer: Buffer, value: float) -> bool:
    return bool((buffer == value).all())


def _all_reduce(end: Endpoint, size: int, *, shared: bool = False) -> Operation:
    data = end.buffer(elements(size), shared=shared)
    return Operation(
        call=end.all_reduce(data),
        buffers=[data],
        fill=lambda: data.__setitem__(slice(None), end.rank + 1.0),
        check=lambda: all_equal(data, end.world * (end.world + 1) / 2),
    )


def _all_reduce_async(end: Endpoint, size: int) -> Operation:
    data = [end.buffer(elements(size)) for _ in range(ASYNC_DEPTH)]

    def fill() -> None:
        for i, one in enumerate(data):
            one[:] = end.rank + i

    def check() -> bool:
        base = end.world * (end.world - 1) / 2
        return all(all_equal(one, base + i * end.world) for i, one in enumerate(data))

    return Operation(call=end.all_reduce_many(data), buffers=data, fill=fill, check=check)


def _all_gather(end: Endpoint, size: int) -> Operation:
    count = part_elements(size, end.world)
    part, out = end.buffer(count), end.buffer(count * end.world)
    return Operation(
        call=end.all_gather(out, part),
        buffers=[part, out],
        fill=lambda: part.__setitem__(slice(None), end.rank + 1.0),
        check=lambda: _parts_are(out, [r + 1.0 for r in range(end.world)]),
    )


def _reduce_scatter(end: Endpoint, size: int) -> Operation:
    count = part_elements(size, end.world)
    part, data = end.buffer(count), end.buffer(count * end.world)
    return Operation(
        call=end.reduce_scatter(part, data),
        buffers=[part, data],
        fill=lambda: _fill_parts(data, [end.rank + 10.0 * r for r in range(end.world)]),
        check=lambda: all_equal(part, end.world * (end.world - 1) / 2 + 10.0 * end.rank * end.world),
    )


def _broadcast(end: Endpoint, size: int) -> Operation:
    data = end.buffer(elements(size))
    return Operation(
        call=end.broadcast(data),
        buffers=[data],
        fill=lambda: data.__setitem__(slice(None), end.rank + 1.0),
        check=lambda: all_equal(data, 1.0),
    )


def _all_to_all(end: Endpoint, size: int) -> Operation:
    count = part_elements(size, end.world) * end.world
    data, out = end.buffer(count), end.buffer(count)
    return Operation(
        call=end.all_to_all(out, data),
        buffers=[data, out],
        fill=lambda: _fill_parts(data, [end.rank + 10.0 * r for r in range(end.world)]),
        check=lambda: _parts_are(out, [r + 10.0 * end.rank for r in range(end.world)]),
    )


def _reduce(end: Endpoint, size: int) -> Operation:
    data = end.buffer(elements(size))
    return Operation(
        call=end.reduce(data),
        buffers=[data],
        fill=lambda: data.__setitem__(slice(None), end.rank + 1.0),
        check=lambda: end.rank != 0 or all_equal(data, end.world * (end.world + 1) / 2),
    )


def _gather(end: Endpoint, size: int) -> Operation:
    count = part_elements(size, end.world)
    part = end.buffer(count)
    out = end.buffer(count * end.world) if end.rank == 0 else None
    return Operation(
        call=end.gather(out, part),
        buffers=[part] if out is None else [part, out],
        fill=lambda: part.__setitem__(slice(None), end.rank + 1.0),
        check=lambda: out is None or _parts_are(out, [r + 1.0 for r in range(end.world)]),
    )


def _scatter(end: Endpoint, size: int) -> Operation:
    count = part_elements(size, end.world)
    part = end.buffer(count)
    data = end.buffer(count * end.world) if end.rank == 0 else None

    def fill() -> None:
        if data is not None:
            _fill_parts(data, [r + 1.0 for r in range(end.world)])

    return Operation(
        call=end.scatter(part, data),
        buffers=[part] if data is None else [part, data],
        fill=fill,
        check=lambda: all_equal(part, end.rank + 1.0),
    )


def _send_recv(end: Endpoint, size: int) -> Operation:
    if end.world % 2:
        raise Unsupported("ping-pong pairs neighbours: an even number of ranks is needed")
    data = end.buffer(elements(size))
    peer = end.rank ^ 1
    return Operation(
        call=end.ping_pong(data, peer),
        buffers=[data],
        fill=lambda: data.__setitem__(slice(None), end.rank + 1.0),
        check=lambda: all_equal(data, min(end.rank, peer) + 1.0),
    )


def _init(end: Endpoint, _: int) -> Operation:
    before, call = end.initialize()
    return Operation(call=call, before=before)


def _limits_only(_: Endpoint, __: int) -> Operation:
    raise Unsupported("measured by the limits only")


Table = Mapping[Op, Callable[[Any, int], Operation]]
"""Makes an operation for an endpoint and a size."""

OPERATIONS: dict[Op, Callable[[Endpoint, int], Operation]] = {
    Op.ALL_REDUCE: _all_reduce,
    Op.ALL_REDUCE_SHARED: lambda end, size: _all_reduce(end, size, shared=True),
    Op.ALL_REDUCE_ASYNC: _all_reduce_async,
    Op.ALL_GATHER: _all_gather,
    Op.REDUCE_SCATTER: _reduce_scatter,
    Op.BROADCAST: _broadcast,
    Op.ALL_TO_ALL: _all_to_all,
    Op.REDUCE: _reduce,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.BARRIER: lambda end, _: Operation(call=end.barrier()),
    Op.SEND_RECV: _send_recv,
    Op.INIT: _init,
    Op.MEMCPY: _limits_only,
    Op.ADD: _limits_only,
}


def _fill_parts(buffer: Buffer, values: Sequence[float]) -> None:
    count = len(buffer) // len(values)
    for i, value in enumerate(values):
        buffer[i * count : (i + 1) * count] = value


def _parts_are(buffer: Buffer, values: Sequence[float]) -> bool:
    count = len(buffer) // len(values)
    return all(all_equal(buffer[i * count : (i + 1) * count], value) for i, value in enumerate(values))
