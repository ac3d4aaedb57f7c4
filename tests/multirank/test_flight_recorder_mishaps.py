"""What programs do to the flight recorder unawares: attach twice, fork, fill the disk, destroy what is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pycomms.flight_recorder import _ring
from pycomms.flight_recorder._model import State

from ._interpreters import Ended, run_interpreters
from ._recorded import seen_in

needs_hooks = pytest.mark.needs_torch("2.14", "hooks around operations")

_BEGINNING = """
import gc, os, signal, sys, time
import torch, torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from pycomms import flight_recorder
from pycomms.flight_recorder import _ring

def begin(backend):
    dist.init_process_group(backend, rank=0, world_size=1, store=dist.HashStore())

def kinds():
    record = _ring.read(flight_recorder.ring_path())
    return [record.signatures[entry["signature"]].kind for entry in record.entries]

def threads():
    return len(os.listdir("/proc/self/task"))

one = torch.ones(1)
"""


def _run(python: str, folder: Path, program: str, *, dumps: str = "", connect: str = "background") -> Ended:
    """dumps, connect: variables of the environment."""
    path = folder / "program.py"
    path.write_text(_BEGINNING + program)
    (ended,) = run_interpreters(
        [["-W", "always", str(path)]],
        python=python,
        PYCOMMS_FR_DIR=str(folder / "records"),
        PYCOMMS_FR_JOB="test",
        PYCOMMS_FR_DUMP_DIR=dumps,
        PYCOMMS_CONNECT=connect,
    )
    return ended


_TWICE = """
make, register = c10d._new_process_group_helper, c10d._register_pg_in_world
first = flight_recorder.attach()
second = flight_recorder.attach()
begin("gloo")
dist.all_reduce(one)
assert kinds() == ["all_reduce"], kinds()
third = flight_recorder.attach()
assert first.groups == second.groups == third.groups == 1
first.detach()
first.detach()
dist.broadcast(one, 0)
later = dist.new_group([0])
dist.barrier(later)
third.detach()
dist.all_reduce(one, group=later)
assert kinds() == ["all_reduce", "broadcast", "barrier", "all_reduce"], kinds()
second.detach()
assert (c10d._new_process_group_helper, c10d._register_pg_in_world) == (make, register)
dist.all_reduce(one)
dist.all_reduce(one, group=dist.new_group([0]))
assert len(kinds()) == 4
with flight_recorder.attach():
    dist.all_reduce(one)
assert len(kinds()) == 5
"""

_DESTROYED = """
attachment = flight_recorder.attach()
begin("gloo")
dist.all_reduce(one)
dist.destroy_process_group(dist.new_group([0]))
gc.collect()
before = threads()
for _ in range(10):
    group = dist.new_group([0])
    dist.all_reduce(one, group=group)
    dist.destroy_process_group(group)
del group
gc.collect()
assert attachment.groups == 1, attachment.groups
assert threads() == before, (threads(), before)
dist.destroy_process_group()
begin("gloo")
dist.all_reduce(one)
record = _ring.read(flight_recorder.ring_path())
assert record.entries["sequence"][-1] == 1
dist.destroy_process_group()
attachment.detach()
begin("gloo")
dist.all_reduce(one)
assert len(kinds()) == 12
"""

_FORKED = """
attachment = flight_recorder.attach()
begin("gloo")
dist.all_reduce(one)
mine = flight_recorder.ring_path()
child = os.fork()
if child == 0:
    # What a worker of a data loader does, and then an end with all that is registered for it.
    assert flight_recorder.ring_path() is None
    sys.exit(0)
os.waitpid(child, 0)
assert mine.exists()
child = os.fork()
if child == 0:
    os.kill(os.getpid(), signal.SIGTERM)
os.waitpid(child, 0)
assert not _ring.read(mine).stop_reason
child = os.fork()
if child == 0:
    another = dist.new_group([0], backend="gloo", use_local_synchronization=True)
    dist.all_reduce(one, group=another)
    assert kinds() == ["all_reduce"], kinds()
    assert flight_recorder.ring_path() not in (None, mine)
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert len(kinds()) == 1
loader = torch.utils.data.DataLoader(torch.arange(8), batch_size=2, num_workers=2, multiprocessing_context="fork")
for batch in loader:
    dist.all_reduce(batch)
assert mine.exists()
assert len(kinds()) == 5
"""


@needs_hooks
@pytest.mark.parametrize("program", [_TWICE, _DESTROYED, _FORKED], ids=["twice", "destroyed", "forked"])
def test_attached_to(program: str, warm_python: str, tmp_path: Path) -> None:
    ended = _run(warm_python, tmp_path, program)
    assert ended.returncode == 0, ended.errors


_FULL = """
import resource
room = 1 << 24
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, room))
attachment = flight_recorder.attach() if {hooked} else None
begin("{backend}")
resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
for _ in range(10):
    dist.all_reduce(one)
path = flight_recorder.ring_path()
print(path is not None)
if path is not None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, room))
    try:
        flight_recorder.dump("no room")
    except OSError as error:
        print("cannot write" in str(error), len(kinds()))
    print(sorted(file.suffix for file in path.parent.iterdir()))
dist.all_reduce(one)
"""


@pytest.mark.parametrize("backend", [pytest.param("gloo", marks=needs_hooks), "nccl2"])
@pytest.mark.parametrize("room", [1 << 16, 1 << 24])
def test_without_room_training_goes_on(room: int, backend: str, warm_python: str, tmp_path: Path) -> None:
    program = _FULL.format(room=room, hooked=backend == "gloo", backend=backend)
    # The group's own memory is no file that counts here: it is made with the first operation.
    ended = _run(warm_python, tmp_path, program, connect="lazy")
    assert ended.returncode == 0, ended.errors
    if room == 1 << 16:
        assert ended.output.split("\n")[0] == "False"
        assert "nothing is recorded" in ended.errors
    else:
        assert ended.output.split("\n")[:3] == ["True", "True 10", "['.ring']"]


_DUMPS_NOWHERE = """
begin("nccl2")
dist.all_reduce(one)
flight_recorder.dump("here?", folder=flight_recorder.ring_path().parent)
"""


def test_a_folder_for_dumps_that_cannot_be_made_stops_nobody(warm_python: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    ended = _run(warm_python, tmp_path, _DUMPS_NOWHERE, dumps=str(tmp_path / "file" / "dumps"))
    assert ended.returncode == 0, ended.errors
    assert "dumps go to" in ended.errors


_SPAWNED = """
import torch.multiprocessing as mp

def work(rank, store):
    if {hooked}:
        flight_recorder.attach()
    dist.init_process_group("{backend}", rank=rank, world_size=2, store=dist.FileStore(store, 2))
    dist.all_reduce(one)
    if rank == 1:
        raise ValueError("a bug in a rank that was spawned")
    dist.all_reduce(one)

if __name__ == "__main__":
    try:
        mp.spawn(work, args=(sys.argv[0] + ".store",), nprocs=2)
    except mp.ProcessRaisedException:
        print("raised")
"""


@pytest.mark.parametrize("backend", [pytest.param("gloo", marks=needs_hooks), "nccl2"])
def test_an_exception_in_a_spawned_rank_leaves_a_dump(backend: str, warm_python: str, tmp_path: Path) -> None:
    ended = _run(warm_python, tmp_path, _SPAWNED.format(hooked=backend == "gloo", backend=backend))
    assert ended.output.startswith("raised"), ended.errors
    records = [_ring.read(path) for path in sorted((tmp_path / "records/test").glob("*.dump"))]
    assert "uncaught ValueError: a bug in a rank that was spawned" in [record.stop_reason for record in records]
    assert seen_in(records[0])[0].state == State.COMPLETED
