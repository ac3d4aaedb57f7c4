"""Reads the ring of a process, or a dump of one: live, after the process was killed, or copied from elsewhere.

The layout is that of csrc/recorder/format.h. Trusts nothing in the file. Must not know: torch.
"""

from __future__ import annotations

import socket
import stat
import struct
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pycomms.flight_recorder._distinct import distinct
from pycomms.flight_recorder._model import ENTRY, UNKNOWN_SITE, Entries, Flag, Group, Record, Signature, Site
from pycomms.flight_recorder._ring_signatures import decode

MAGIC = b"PYCOMMSF"
VERSION = 2
"""The first is read as well: in it no group has taken the place of another."""

_HEADER = struct.Struct("<8sIIQ QIIQIIQQ iiii Q 6I qqqq QQQ 6I q i")
_HEADER_BYTES = 4096

GROUP = np.dtype(
    {
        "names": [
            "is_there", "name", "description", "ranks", "size", "rank", "generation", "is_late", "device", "left",
            "made_ns", "issued", "started", "completed", "requests", "life",
        ],
        "formats": [
            "<u4", "<u4", "<u4", "<u4", "<i4", "<i4", "<u4", "<u4", "<u4", "<u4",
            "<i8", "<u4", "<u4", "<u4", "<u4", "<u4",
        ],
        "offsets": [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 52, 56, 60, 64],
        "itemsize": 128,
    }
)  # fmt: skip
SLOT = np.dtype(
    {
        "names": [
            "version", "issued_ns", "started_ns", "ended_ns", "group", "sequence", "site", "stack", "error",
            "timeout_ms", "thread", "state", "flags", "signature", "stream", "version_behind",
        ],
        "formats": [
            "<u8", "<i8", "<i8", "<i8", "<u4", "<u4", "<u4", "<u4", "<u4",
            "<u4", "<u4", "u1", "<u2", "V176", "<u8", "<u8",
        ],
        "offsets": [0, 8, 16, 24, 32, 36, 40, 44, 48, 52, 56, 60, 62, 64, 240, 248],
        "itemsize": 256,
    }
)  # fmt: skip
_WRITING, _WHOLE = 1, 2
_MOST_GROUPS = 1 << 16
_MOST_RANKS = 1 << 17  # a number above is damage, and lists of so many would take all memory


class NotARingError(ValueError):
    """The file is no ring, or one of a format that this version does not read."""


@dataclass(frozen=True, kw_only=True)
class _Header:
    file_bytes: int
    groups_at: int
    slots_at: int
    slot_capacity: int
    heap_at: int
    rank: int
    world_size: int
    pid: int
    attempt: int
    process_started: int
    texts: tuple[int, ...]  # host, job, library, kinds, dtypes, reductions
    opened_ns: int  # of the wall clock
    recent_ns: int
    wall_minus_monotonic: int
    next: int
    lost: int
    groups: int
    groups_lost: int
    closed: bool
    reason: int
    signal: int


def read(path: str | Path) -> Record:
    """What the process recorded.

    A file that was cut off gives what is whole in it, and a warning. Entries that the process was just writing when it
    was killed are left out.

    Raises:
        NotARingError: it is something else.
        OSError: it cannot be read.
    """
    status = Path(path).stat()
    if not stat.S_ISREG(status.st_mode):  # a pipe would keep us waiting for its other end
        raise NotARingError(f"{path} is no regular file")
    if not status.st_size:
        raise NotARingError(f"{path} is empty: its writer was killed, or the disk was full")
    data = np.fromfile(path, np.uint8) if Path(path).suffix != ".ring" else np.memmap(path, np.uint8, mode="r")
    header = _header(str(path), data)
    heap = _Heap(data, header.heap_at)
    warnings: list[str] = []
    complete = len(data) >= min(header.file_bytes, header.heap_at)
    if not complete:
        warnings.append("the file was cut off: what follows in it is lost")
    looked_ns = time.time_ns()  # before they are copied: what began later is not in it
    slots, torn = _slots(data, header)
    if torn:
        warnings.append(f"{torn} entries were being written when the record was taken, and are left out")
    if header.lost:
        warnings.append(f"{header.lost} entries were not recorded, because others were written at the same time")
    if header.groups_lost:
        warnings.append(
            f"{header.groups_lost} groups had no room in the record: their operations are in it, "
            "but nothing is concluded from them"
        )
    group_slots = _group_slots(data, header)
    groups = _groups(group_slots, heap)
    rank = header.rank if header.rank >= 0 else _rank_in(groups, group_slots)
    entries, tables = _entries(slots, header, heap)
    entries["group"], of_others = _places(slots["group"], group_slots)
    if of_others:
        # A group of one process: nothing was in flight in it, nobody waits there.
        groups = (*groups, Group(name="(groups that made room for others)", ranks=(max(rank, 0),)))
    host = heap.text(header.texts[0])
    reason = heap.text(header.reason)
    if header.signal:
        reason = f"signal {header.signal}" + (f"; before it: {reason}" if reason else "")
    is_dump = Path(path).suffix == ".dump"
    process = _state_of_process(header) if host == socket.gethostname() else None
    alive = None if process is None else process not in _ENDED
    return Record(
        source=str(path),
        writer="pycomms" if is_dump else "ring",
        version=str(VERSION),
        rank=rank,
        world_size=header.world_size or max((len(group.ranks) for group in groups), default=0),
        host=host,
        pid=header.pid,
        job=heap.text(header.texts[1]),
        attempt=header.attempt,
        started_ns=header.opened_ns,
        taken_ns=looked_ns if alive and not is_dump else header.recent_ns,
        complete=complete,
        closed=header.closed,
        alive=alive,
        stopped=process == _STOPPED and not is_dump,
        dropped=max(0, header.next - header.slot_capacity),
        stop_reason=reason,
        library=heap.text(header.texts[2]),
        groups=groups,
        signatures=tables.signatures,
        sites=tables.sites,
        errors=tables.errors,
        entries=entries,
        warnings=tuple(warnings),
    )


def _header(path: str, data: npt.NDArray[np.uint8]) -> _Header:
    if len(data) < _HEADER_BYTES or data[:8].tobytes() != MAGIC:
        raise NotARingError(f"{path} is no file of a flight recorder")
    f = _HEADER.unpack(data[: _HEADER.size].tobytes())
    version, groups_at, slots_at, heap_at = f[1], f[4], f[7], f[10]
    if not 1 <= version <= VERSION:
        raise NotARingError(f"{path} has format {version}, this version of pycomms reads 1 to {VERSION}")
    if f[5] != GROUP.itemsize or f[8] != SLOT.itemsize or not _HEADER_BYTES <= groups_at <= slots_at <= heap_at:
        raise NotARingError(f"{path} is damaged: its parts lie where none can be")
    return _Header(
        file_bytes=f[3],
        groups_at=groups_at,
        slots_at=slots_at,
        slot_capacity=f[9],
        heap_at=heap_at,
        rank=f[12],
        world_size=_ranks(f[13]),
        pid=f[14],
        attempt=f[15],
        process_started=f[16],
        texts=f[17:23],
        opened_ns=f[24],
        recent_ns=f[26],
        wall_minus_monotonic=_within_64_bits(f[26] - f[25]),
        next=f[27],
        lost=f[28],
        groups=min(f[31], f[6]),
        groups_lost=f[32],
        closed=bool(f[33]),
        reason=f[35],
        signal=f[37],
    )


def _within_64_bits(number: int) -> int:
    return number if abs(number) < 1 << 62 else 0  # clocks that are so far apart are damage


def _ranks(number: int) -> int:
    """How many there are, by a field; zero where it cannot be right."""
    return number if 0 <= number <= _MOST_RANKS else 0


class _Heap:
    """Strings by their offset; empty where the offset leads nowhere."""

    def __init__(self, data: npt.NDArray[np.uint8], at: int) -> None:
        self._data, self._at = data, at

    def bytes(self, offset: int) -> bytes:
        start = self._at + offset
        if offset == 0 or start + 4 > len(self._data):
            return b""
        length = int.from_bytes(self._data[start : start + 4].tobytes(), "little")
        found = self._data[start + 4 : start + 4 + length]
        return found.tobytes() if len(found) == length else b""

    def text(self, offset: int) -> str:
        return self.bytes(int(offset)).decode(errors="replace")

    def names(self, offset: int) -> list[str]:
        return self.text(offset).split("\n")


def _slots(data: npt.NDArray[np.uint8], header: _Header) -> tuple[Entries, int]:
    """The entries that are whole, oldest first, and how many are not."""
    room = min(header.slot_capacity, max(0, len(data) - header.slots_at) // SLOT.itemsize)
    live = data[header.slots_at : header.slots_at + room * SLOT.itemsize].view(SLOT)
    before = live["version"].copy()
    slots = live.copy()
    # What changed while it was copied is looked at once more: an entry is written within a microsecond.
    for i in np.flatnonzero((slots["version"] != live["version"]) | (slots["version"] != before)):
        for _ in range(100):
            slots[i] = live[i]
            if slots["version"][i] == live["version"][i] and slots["version"][i] % 4 != _WRITING:
                break
    version = slots["version"]
    used = version != 0
    # A process that was killed within an update has left an entry whose fields are whole, each for itself.
    whole = used & (version % 4 != _WRITING) & (slots["version_behind"] == version // 4 * 4 + _WHOLE)
    kept = slots[whole]
    return kept[np.argsort(kept["version"], kind="stable")], int(np.count_nonzero(used & ~whole))


def _group_slots(data: npt.NDArray[np.uint8], header: _Header) -> Entries:
    """Their slots, as they are at one moment each; one that is just becoming another's is not there."""
    room = min(header.groups, max(0, len(data) - header.groups_at) // GROUP.itemsize)
    live = data[header.groups_at : header.groups_at + room * GROUP.itemsize].view(GROUP)
    slots: Entries = live.copy()
    slots["is_there"] &= live["is_there"] & (slots["life"] == live["life"])
    return slots


def _places(numbers: npt.NDArray[Any], slots: Entries) -> tuple[npt.NDArray[np.uint32], bool]:
    """Where the group of each entry is, by its number: its place and how many had that before. Whether any is gone:
    of those, the place behind all.
    """
    places = numbers % _MOST_GROUPS
    known = places < len(slots)
    places[~known] = 0
    gone = known & (slots["life"][places] != numbers // _MOST_GROUPS) if len(slots) else np.zeros(len(places), bool)
    places[gone] = len(slots)
    return places, bool(gone.any())


def _groups(slots: Entries, heap: _Heap) -> tuple[Group, ...]:
    groups = []
    for slot in slots:
        if not slot["is_there"]:
            groups.append(Group(name="(a group that was just being made)"))
            continue
        listed = heap.bytes(int(slot["ranks"]))
        ranks = np.frombuffer(listed[: len(listed) // 4 * 4], "<u4").tolist() or range(_ranks(int(slot["size"])))
        device = heap.text(slot["device"])
        name = heap.text(slot["name"])
        groups.append(
            Group(
                # Operations on GPU tensors have a sequence of their own.
                name=name if device in ("", "cpu") else f"{name}/{device}",
                description=heap.text(slot["description"]),
                ranks=tuple(ranks),
                generation=int(slot["generation"]),
                last_issued=int(slot["issued"]),
                last_started=int(slot["started"]),
                last_completed=int(slot["completed"]),
            )
        )
    return tuple(groups)


def _rank_in(groups: tuple[Group, ...], slots: Entries) -> int:
    """The global rank, from this process's place in its first group."""
    if len(groups) < 2:
        return -1
    place = slots[1]["rank"]
    ranks = groups[1].ranks
    return ranks[place] if 0 <= place < len(ranks) else -1


@dataclass(frozen=True, kw_only=True)
class _Tables:
    signatures: tuple[Signature, ...]
    sites: tuple[Site, ...]
    errors: tuple[str, ...]


def _entries(slots: Entries, header: _Header, heap: _Heap) -> tuple[Entries, _Tables]:
    """All but their groups."""
    entries = np.zeros(len(slots), ENTRY)
    for name in ("issued_ns", "started_ns", "ended_ns"):
        entries[name] = np.where(slots[name] == 0, 0, slots[name] + header.wall_minus_monotonic)
    entries["id"] = (slots["version"] // 4).astype(np.uint32)
    for name in ("sequence", "timeout_ms", "flags"):
        entries[name] = slots[name]
    entries["state"] = np.where(slots["state"] <= 7, slots["state"], 0)

    seen: dict[bytes, int] = {}
    entries["signature"] = [seen.setdefault(raw, len(seen)) for raw in slots["signature"].tolist()]
    names = tuple(heap.names(at) for at in header.texts[3:6])
    decoded = [decode(raw, names) for raw in seen]
    for i, cut in enumerate(cut for _, cut in decoded):
        if cut:
            entries["flags"][entries["signature"] == i] |= np.uint16(Flag.SIZES_CUT)

    pairs, which = distinct(slots["site"].astype(np.uint64) << 32 | slots["stack"])
    sites = [UNKNOWN_SITE, *(_site(heap.text(pair >> 32), heap.text(pair & 0xFFFFFFFF)) for pair in pairs.tolist())]
    entries["site"] = which + 1
    texts, which = distinct(slots["error"])
    entries["error"] = which + 1
    errors = ["", *(heap.text(at) for at in texts)]
    return entries, _Tables(
        signatures=tuple(signature for signature, _ in decoded), sites=tuple(sites), errors=tuple(errors)
    )


def _site(text: str, stack: str) -> Site:
    if not text:
        return UNKNOWN_SITE
    lines = stack.split("\n")
    frames = tuple((*_place(place), function) for place, function in zip(lines[::2], lines[1::2], strict=False))
    place, _, function = text.partition("\n")
    file, line = _place(place)
    return Site(file=file, line=line, function=function, stack=tuple((f, n, name) for f, n, name in frames))


def _place(text: str) -> tuple[str, int]:
    file, _, line = text.rpartition(":")
    return file, int(line) if line.isdecimal() else 0


_STOPPED = "T"  # by a signal; a debugger's "t" passes by itself
_ENDED = frozenset("ZX")


def _state_of_process(header: _Header) -> str:
    """The kernel's letter for the process that wrote it, on this host: of that pid, and begun at that time."""
    try:
        text = Path("/proc", str(header.pid), "stat").read_text()
    except OSError:
        return "X"
    fields = text.rpartition(")")[2].split()
    return fields[0] if int(fields[19]) == header.process_started else "X"
