"""The flight recorder in whole programs: gloo with attach(), an exception that nobody catches, and what is left."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pycomms.flight_recorder import _ring
from pycomms.flight_recorder._model import Flag, Record, State

from ._interpreters import run_interpreters
from ._recorded import seen_in

needs_hooks = pytest.mark.needs_torch("2.14", "hooks around operations")

_PROGRAM = """
import sys, time
import torch, torch.distributed as dist
from pycomms import _C, flight_recorder
from pycomms.flight_recorder import _ring
rank, world, backend, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
mode = sys.argv[5]
attachment = flight_recorder.attach() if mode != "late" and _C.recorder_has_hooks else None
dist.init_process_group(backend, rank=rank, world_size=world, store=dist.FileStore(store, world))
if mode == "late":
    dist.all_reduce(torch.ones(1))
    attachment = flight_recorder.attach()
tensor = torch.ones(4)
dist.all_reduce(tensor)
pair = dist.new_group([0, 1], group_desc="later")
dist.broadcast(tensor, src=0, group=pair)
if rank == 0:
    dist.send(tensor, 1)
else:
    dist.recv(tensor, 0)
try:
    options = dist.BroadcastOptions()
    options.rootRank = 99
    pair.broadcast([tensor], options)
except Exception:
    pass
dist.barrier()
if mode == "detached":
    attachment.detach()
    dist.all_reduce(tensor)
if mode == "uncaught":
    raise ValueError("a bug of the user's")
# A Work may wake its waiters before it tells its hooks.
deadline = time.monotonic() + 30
while any(entry["state"] < 3 for entry in _ring.read(flight_recorder.ring_path()).entries):
    assert time.monotonic() < deadline
flight_recorder.dump("the end of the test")
dist.barrier()
dist.destroy_process_group()
"""


def _run_program(python: str, folder: Path, backend: str, mode: str) -> list[Record]:
    program = folder / "program.py"
    program.write_text(_PROGRAM)
    ended = run_interpreters(
        [["-W", "ignore", str(program), str(rank), "2", backend, str(folder / "store"), mode] for rank in range(2)],
        python=python,
        PYCOMMS_FR_DIR=str(folder / "records"),
        PYCOMMS_FR_JOB="test",
    )
    for one in ended:
        assert (one.returncode == 0) == (mode != "uncaught"), one.errors
    records = [_ring.read(path) for path in sorted((folder / "records/test").glob("*.1.dump"))]
    assert sorted(record.rank if record.rank >= 0 else i for i, record in enumerate(records)) == [0, 1]
    return records


@needs_hooks
@pytest.mark.parametrize("mode", ["early", "late", "detached"])
def test_attach_records_gloo(tmp_path: Path, mode: str) -> None:
    # Records of ranks that nobody has told them are in the order of the process ids: those are the order of the start.
    for rank, record in enumerate(_run_program(sys.executable, tmp_path, "gloo", mode)):
        entries = seen_in(record)
        world, later = (group.name for group in record.groups[1:])
        first = [one for one in entries if one.group == world]
        assert [(one.signature.kind, one.sequence) for one in first] == [
            ("all_reduce", 1),
            ("send" if rank == 0 else "recv", 1),
            ("barrier", 2),
        ]
        assert {one.state for one in first} == {State.COMPLETED}
        second = [one for one in entries if one.group == later]
        assert [one.signature.kind for one in second] == ["broadcast", "broadcast"]
        assert second[0].signature.root == 0
        assert second[1].state == State.REJECTED
        assert record.groups[2].description == "later"
        assert record.groups[2].ranks == (0, 1)
        assert all((Flag.LATE in one.flags) == (mode == "late") for one in first)
        assert first[0].site.startswith(str(tmp_path / "program.py"))


@pytest.mark.parametrize("backend", [pytest.param("gloo", marks=needs_hooks), "nccl2"])
def test_an_uncaught_exception_leaves_a_dump(warm_python: str, tmp_path: Path, backend: str) -> None:
    for record in _run_program(warm_python, tmp_path, backend, "uncaught"):
        assert record.stop_reason == "uncaught ValueError: a bug of the user's"


@needs_hooks
def test_our_own_groups_are_not_recorded_twice(warm_python: str, tmp_path: Path) -> None:
    for record in _run_program(warm_python, tmp_path, "nccl2", "early"):
        kinds = [one.signature.kind for one in seen_in(record)]
        assert kinds.count("send") + kinds.count("recv") == 1


_QUIET = """
import sys, torch, torch.distributed as dist, pycomms
from pycomms import flight_recorder
dist.init_process_group("nccl2", rank=0, world_size=1, store=dist.HashStore())
dist.all_reduce(torch.ones(1))
print(flight_recorder.ring_path())
"""


@pytest.mark.parametrize("entries", ["4096", "0"])
def test_a_process_that_nothing_happened_to_leaves_nothing(tmp_path: Path, entries: str) -> None:
    folder = str(tmp_path / "records")
    (ended,) = run_interpreters([["-c", _QUIET]], PYCOMMS_FR_DIR=folder, PYCOMMS_FR_ENTRIES=entries)
    assert ended.returncode == 0, ended.errors
    assert (ended.output.strip() == "None") == (entries == "0")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_place_that_cannot_be_written_is_said_and_harms_nobody(tmp_path: Path) -> None:
    place = tmp_path / "a file"
    place.write_text("no folder")
    (ended,) = run_interpreters([["-c", _QUIET]], PYCOMMS_FR_DIR=str(place))
    assert ended.returncode == 0, ended.errors
    assert ended.output.strip() == "None"
    assert "nothing is recorded" in ended.errors
