"""What an entry of a large job takes in memory: 10,000 ranks of 2,000 must fit into 2 GB, so it is bounded here."""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pycomms.flight_recorder import _ring
from tests.flight_recorder.dumps import torch_dump
from tests.flight_recorder.test_scale import large_job

_ENTRIES = 2000
_FEW, _MANY, _MISSING = 20, 220, 7
_MOST_BYTES = 90
_RANK_AT, _WORLD_SIZE_AT, _NEXT_AT, _GROUPS_THERE_AT = 72, 76, 152, 180


def _write_pickles(folder: Path, ranks: int) -> None:
    """Of one rank that is missing, and of another: the files of all others are that one, under other names."""
    records = large_job(ranks, _ENTRIES, missing=_MISSING)
    for rank, record in ((_MISSING, records[_MISSING]), (0, records[0])):
        dump = torch_dump(replace(record, writer="nccl"))
        # Strings and frames are written once, as torch does.
        frames = {str(entry["frames"]): entry["frames"] for entry in dump["entries"]}
        for entry in dump["entries"]:
            entry["frames"] = frames[str(entry["frames"])]
        data = pickletools.optimize(pickle.dumps(dump, protocol=2))
        (folder / f"nccl_trace_rank_{rank}").write_bytes(data)
    for rank in set(range(1, ranks)) - {_MISSING}:
        (folder / f"nccl_trace_rank_{rank}").hardlink_to(folder / "nccl_trace_rank_0")


def _write_rings(folder: Path, ranks: int) -> None:
    """The layout is that of csrc/recorder/format.h."""
    groups = np.zeros(2, _ring.GROUP)
    groups["is_there"], groups["size"], groups["name"] = 1, (1, ranks), (0, 8)
    slots = np.zeros(_ENTRIES, _ring.SLOT)
    number = np.arange(_ENTRIES)
    slots["version"] = slots["version_behind"] = 4 * number + 2
    slots["issued_ns"] = 1 + number * 1_000_000
    slots["ended_ns"] = slots["issued_ns"] + 1000
    slots["group"], slots["sequence"], slots["state"] = 1, number + 1, 3
    slots["state"][-1], slots["ended_ns"][-1] = 2, 0
    slots_at = 4096 + groups.nbytes
    heap_at = slots_at + slots.nbytes
    header = struct.pack("<8sIIQQIIQIIQQiiii", b"PYCOMMSF", 2, 4096, heap_at + 64, 4096, 128, 2, slots_at, 256,
                         _ENTRIES, heap_at, 64, 0, ranks, 1, 0)  # fmt: skip
    data = bytearray(header.ljust(4096, b"\0") + groups.tobytes() + slots.tobytes() + bytes(64))
    struct.pack_into("<I5s", data, heap_at + 8, 5, b"world")
    struct.pack_into("<Q", data, _NEXT_AT, _ENTRIES)
    struct.pack_into("<I", data, _GROUPS_THERE_AT, 2)
    for rank in range(ranks):
        struct.pack_into("<i", data, _RANK_AT, rank)
        kept = bytearray(data)
        if rank == _MISSING:
            last = slots_at + slots.nbytes - _ring.SLOT.itemsize
            kept[last : last + _ring.SLOT.itemsize] = bytes(_ring.SLOT.itemsize)
        (folder / f"rank{rank}.{1000 + rank}.1.dump").write_bytes(kept)


def _memory_to_analyze(folder: Path) -> int:
    """The most that the command took."""
    command = [sys.executable, "-m", "pycomms", "fr", "analyze", str(folder), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        found = json.loads(process.stdout.read())
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert (found["verdict"], found["root_ranks"]) == ("MISSING_RANK", [_MISSING])
    return used.ru_maxrss * 1024


@pytest.mark.parametrize("write", [_write_pickles, _write_rings])
def test_memory_of_an_entry(write: Callable[[Path, int], None], tmp_path: Path) -> None:
    taken = []
    for ranks in (_FEW, _MANY):
        folder = tmp_path / str(ranks)
        folder.mkdir()
        write(folder, ranks)
        taken.append(_memory_to_analyze(folder))
    assert (taken[1] - taken[0]) / ((_MANY - _FEW) * _ENTRIES) <= _MOST_BYTES
