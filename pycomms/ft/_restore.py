"""A state, out of the memory of those who have it: each of them serves a part, all parts are fetched at once.

Collective over the group. Nothing of the receiver's state changes before all has come and its checksums are right, so a
member that dies meanwhile, on either side, costs another try and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from zlib import crc32

import torch
import torch.distributed as dist
from torch import Tensor

from pycomms import rma
from pycomms.ft._state import Snapshot, read_manifest
from pycomms.ft.errors import StateMismatch

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

CHUNK = 4 << 20
"""Bytes that are fetched and checked together."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """Which part of the bytes a source serves, [begin, end); behind it in its window are the chunks' checksums."""

    rank: int
    begin: int
    end: int

    @property
    def chunks(self) -> list[tuple[int, int]]:
        return [(at, min(at + CHUNK, self.end)) for at in range(self.begin, self.end, CHUNK)]

    @property
    def sums_at(self) -> int:
        return -(-(self.end - self.begin) // 8) * 8

    @property
    def window_bytes(self) -> int:
        return self.sums_at + 8 * len(self.chunks)


def divide(nbytes: int, own_nbytes: int, sources: Sequence[int]) -> list[Served]:
    """Parts of whole chunks, in the order of the sources and as equal as can be; ``own_nbytes`` in front are one's."""
    chunks = -(-nbytes // CHUNK)
    ends = [min(nbytes, max(own_nbytes, CHUNK * (chunks * one // len(sources)))) for one in range(1, len(sources) + 1)]
    bounds = [0, *ends]
    return [
        Served(rank=rank, begin=begin, end=end)
        for rank, begin, end in zip(sources, bounds[:-1], bounds[1:], strict=True)
    ]


def serve_or_fetch(
    group: dist.ProcessGroup,
    sources: Sequence[int],
    is_restoring: bool,
    snapshot: Callable[[], Snapshot],
    timeout: timedelta,
    mesh: DeviceMesh | None = None,
) -> dict[str, Any] | None:
    """Returns the state dicts where this rank is restoring.

    Args:
        group: of those who have the same state: of a sharded model, the same shard.
        sources: ranks that have the state, all the same.
        snapshot: takes this rank's state apart; asked for on sources alone.
        mesh: that a sharded model is on.

    Raises:
        StateMismatch: what came was damaged on the way, and again when it was fetched again.
        pycomms.PycommsError: what the group raises.
    """
    own = snapshot() if group.rank() in sources else None
    manifest = read_manifest(_from_first(group, sources[0], own.manifest() if own is not None else b"", timeout))
    nbytes = manifest.nbytes
    served = {one.rank: one for one in divide(nbytes, manifest.own_nbytes, sources)}
    mine = served.get(group.rank())
    held = rma.empty(mine.window_bytes if mine else 0, dtype=torch.uint8, group=group)
    if mine and own is not None:
        _stage(own, mine, held)
    with rma.Window(held, group, name="restore", timeout=timeout) as win:
        data = _fetch(win, nbytes, list(served.values()), timeout) if is_restoring else None
    return manifest.put_together(data, mesh) if data is not None else None


def _from_first(group: dist.ProcessGroup, source: int, given: bytes, timeout: timedelta) -> bytes:
    size = torch.tensor([len(given)])
    _broadcast(group, size, source, timeout)
    content = torch.empty(int(size), dtype=torch.uint8)
    if given:
        content.copy_(torch.frombuffer(bytearray(given), dtype=torch.uint8))
    _broadcast(group, content, source, timeout)
    return content.numpy().tobytes()


def _broadcast(group: dist.ProcessGroup, tensor: Tensor, source: int, timeout: timedelta) -> None:
    options = dist.BroadcastOptions()
    options.rootRank = source
    options.timeout = timeout
    options.asyncOp = False
    work = group.broadcast([tensor], options)
    if work is not None:
        work.wait()


def _stage(snapshot: Snapshot, mine: Served, held: Tensor) -> None:
    """Copies what this source serves into its window."""
    for piece, tensor in zip(snapshot.pieces, snapshot.tensors, strict=True):
        begin, end = max(piece.offset, mine.begin), min(piece.offset + piece.nbytes, mine.end)
        if begin < end:
            held[begin - mine.begin : end - mine.begin].copy_(_bytes_of(tensor, begin - piece.offset, end - begin))
    sums = [_sum(held[begin - mine.begin : end - mine.begin]) for begin, end in mine.chunks]
    held[mine.sums_at :].view(torch.int64).copy_(torch.tensor(sums, dtype=torch.int64))


def _bytes_of(tensor: Tensor, begin: int, count: int) -> Tensor:
    flat = tensor.contiguous().reshape(-1).view(torch.uint8)
    return flat[begin : begin + count]


def _sum(data: Tensor) -> int:
    return crc32(data.numpy().data)


def _fetch(win: rma.Window, nbytes: int, served: Sequence[Served], timeout: timedelta) -> Tensor:
    data = torch.empty(nbytes, dtype=torch.uint8)
    with ThreadPoolExecutor(len(served), "pycomms-ft-restore") as pool:
        for done in [pool.submit(_fetch_part, win, part, data, timeout) for part in served]:
            done.result()
    return data


def _fetch_part(win: rma.Window, part: Served, data: Tensor, timeout: timedelta) -> None:
    if part.begin == part.end:
        return
    sums = torch.empty(8 * len(part.chunks), dtype=torch.uint8)
    win.get(sums, part.rank, part.sums_at, timeout=timeout)
    for (begin, end), wanted in zip(part.chunks, sums.view(torch.int64).tolist(), strict=True):
        target = data[begin:end]
        for _ in range(2):
            win.get(target, part.rank, begin - part.begin, timeout=timeout)
            found = _sum(target)
            if found == wanted:
                break
        else:
            raise StateMismatch(
                f"bytes {begin} to {end} of the state of rank {part.rank} have checksum {found:#010x}, "
                f"expected {wanted:#010x}, twice"
            )
