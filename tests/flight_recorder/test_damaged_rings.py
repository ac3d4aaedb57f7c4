"""Rings whose numbers cannot be right: read within bounds, whatever they say."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pycomms.flight_recorder import _command, _ring
from pycomms.flight_recorder._model import Group, State
from pycomms.flight_recorder.analysis import Verdict, analyze
from tests.flight_recorder.corpus import AR, loop, world
from tests.flight_recorder.simulator import run

_WORLD_SIZE_AT, _GROUPS_AT, _GROUPS_LOST_AT = 76, 4096, 184


def _ring_bytes() -> bytearray:
    """An empty record of one group; the layout is that of csrc/recorder/format.h."""
    groups = np.zeros(2, _ring.GROUP)
    groups["is_there"], groups["size"] = 1, (0, 2)
    slots_at = _GROUPS_AT + groups.nbytes
    heap_at = slots_at + _ring.SLOT.itemsize
    header = struct.pack("<8sIIQQIIQIIQQiiii", b"PYCOMMSF", 1, 4096, heap_at + 64, _GROUPS_AT, 128, 2, slots_at, 256, 1,
                         heap_at, 64, 0, 2, 1, 0)  # fmt: skip
    data = bytearray(header.ljust(_GROUPS_AT, b"\0") + groups.tobytes() + bytes(256 + 64))
    struct.pack_into("<I", data, _GROUPS_LOST_AT - 4, 2)  # groups that are there
    return data


@pytest.mark.parametrize("number", [-1, 1 << 18, (1 << 31) - 1])
def test_numbers_of_ranks_that_cannot_be_right_take_no_memory(number: int, tmp_path: Path) -> None:
    data = _ring_bytes()
    struct.pack_into("<i", data, _WORLD_SIZE_AT, number)
    struct.pack_into("<i", data, _GROUPS_AT + 128 + 16, number)
    path = tmp_path / "rank0.1.dump"
    path.write_bytes(data)
    record = _ring.read(path)
    assert record.world_size == 0
    assert record.groups[1].ranks == ()
    assert analyze([record]).verdict is Verdict.INSUFFICIENT_DATA


def test_groups_without_room_are_told(tmp_path: Path) -> None:
    data = _ring_bytes()
    struct.pack_into("<I", data, _GROUPS_LOST_AT, 7)
    path = tmp_path / "rank0.1.dump"
    path.write_bytes(data)
    record = _ring.read(path)
    assert record.world_size == 2
    assert len(record.groups) == 2
    assert any("7 groups had no room" in text for text in record.warnings)


def test_clocks_that_cannot_be_right_do_no_harm(tmp_path: Path) -> None:
    data = _ring_bytes()
    struct.pack_into("<qqqq", data, 120, -(1 << 63), (1 << 63) - 1, -(1 << 63), (1 << 63) - 1)
    path = tmp_path / "rank0.1.dump"
    path.write_bytes(data)
    assert len(_ring.read(path).entries) == 0


def test_a_report_that_cannot_be_written_is_no_fault_of_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rank0.1.dump"
    path.write_bytes(_ring_bytes())
    assert _command.main(["analyze", str(path), "--html", str(tmp_path / "nowhere" / "report.html")]) == 3
    assert "cannot write" in capsys.readouterr().err


def test_a_failure_in_a_group_without_room_is_not_called_healthy() -> None:
    (record,) = run(world(1), lambda _: loop(3, AR)).records()
    unknown = Group(name="(one of the groups that the record has no room for)")
    record = replace(record, writer="ring", groups=(*record.groups, unknown), entries=record.entries.copy())
    record.entries["group"][-1] = len(record.groups) - 1
    assert analyze([record]).verdict is Verdict.HEALTHY
    record.entries["state"][-1] = State.FAILED
    analysis = analyze([record])
    assert analysis.verdict is Verdict.INSUFFICIENT_DATA
    assert "no room" in analysis.findings[0].what


@pytest.mark.parametrize("life, group", [(0, "here"), (1, "(groups that made room for others)")])
def test_an_entry_of_a_group_that_made_room_is_not_the_next_ones(life: int, group: str, tmp_path: Path) -> None:
    data = _ring_bytes()
    struct.pack_into("<I", data, 8, 2)  # the version
    slot = np.zeros(1, _ring.SLOT)
    slot["version"] = slot["version_behind"] = 2  # the first entry, whole
    slot["group"], slot["sequence"], slot["state"] = 1, 5, State.RUNNING
    slots_at, heap_at = _GROUPS_AT + 256, _GROUPS_AT + 256 + 256
    data[slots_at:heap_at] = slot.tobytes()
    struct.pack_into("<I4s", data, heap_at + 8, 4, b"here")
    struct.pack_into("<I", data, _GROUPS_AT + 128 + 4, 8)  # its name
    struct.pack_into("<I", data, _GROUPS_AT + 128 + 64, life)
    path = tmp_path / "rank0.1.dump"
    path.write_bytes(data)
    record = _ring.read(path)
    assert [record.groups[place].name for place in record.entries["group"]] == [group]
