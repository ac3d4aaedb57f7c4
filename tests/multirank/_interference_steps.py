"""What a process can be asked to do while it regroups. Runs on the process; see `_members`."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ._errors import Caught, needed
from ._harness import context

_DEADLINE_S = 20.0
# Of children that nobody ends: a test that fails leaves none behind for long.
_CHILD_LIVES_S = 30
_LOOK_S = 0.01

_works: list[Any] = []
_reached = threading.Event()
_released = threading.Event()


def begin(uuid: int, handles: list[str], timeout: float) -> None:
    """Regroups without waiting."""
    import pycomms

    _works.append(pycomms.regroup(uuid=uuid, handles=handles, timeout=timedelta(seconds=timeout)))


def finish() -> bool:
    return bool(_works.pop().wait())


def begin_and_abort(uuid: int, handles: list[str], timeout: float) -> Caught:
    group = c10d._get_default_group()
    begin(uuid, handles, timeout)
    group.abort()
    return needed(finish)


def begin_and_destroy(uuid: int, handles: list[str], timeout: float) -> Caught:
    begin(uuid, handles, timeout)
    dist.destroy_process_group()
    return needed(lambda: _works.pop()._work.wait())


def hold_at(point: str) -> None:
    """The next regroup waits at this point until `release`, and `await_point` returns when it has come there."""
    from pycomms import _C

    def hold(reached: str) -> None:
        if reached == point:
            _reached.set()
            _released.wait(_DEADLINE_S)

    _C.set_regroup_probe(hold)


def stop_at(point: str) -> None:
    """The next regroup stops this process when it has come to this point, until somebody continues it."""
    from pycomms import _C

    def stop(reached: str) -> None:
        if reached == point:
            _C.set_regroup_probe(None)
            os.kill(os.getpid(), signal.SIGSTOP)

    _C.set_regroup_probe(stop)


def await_point() -> bool:
    return _reached.wait(_DEADLINE_S)


def release() -> None:
    _released.set()


def init_lazily(rank: int, world: int) -> None:
    """With nobody else: the group goes on connecting until its timeout."""
    import pycomms

    options = pycomms.Options(connect=pycomms.Connect.LAZY)
    timeout = timedelta(seconds=_DEADLINE_S)
    dist.init_process_group(
        "nccl2", store=context().store("lazy"), rank=rank, world_size=world, timeout=timeout, pg_options=options
    )


def await_guests(count: int) -> None:
    """Until so many have come to this process, which convenes the others; it is one of them itself."""
    deadline = time.monotonic() + _DEADLINE_S
    while _guests() < count:
        assert time.monotonic() < deadline
        threading.Event().wait(_LOOK_S)


def _guests() -> int:
    """Connections that this process has accepted: they bear the name that it listens at."""
    own = set()
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it is closed by now
            own.add(str(one.readlink()))
    connections = [line.split() for line in Path("/proc/self/net/unix").read_text().splitlines()[1:]]
    return sum(
        len(one) == 8 and one[5] == "03" and one[7].startswith("@pycomms-") and f"socket:[{one[6]}]" in own
        for one in connections
    )


def live_on_in_a_child() -> int:
    """Forks a child that has all that this process has, and does nothing. Returns its number."""
    child = os.fork()
    if child == 0:
        context().let_go()
        signal.alarm(_CHILD_LIVES_S)
        signal.pause()
        os._exit(1)
    return child


def in_a_child(call: Callable[[], Any]) -> int:
    """How a forked child ends: with 0 if the call raised a ValueError in time. -1: it did not end."""
    child = os.fork()
    if child == 0:
        signal.alarm(_CHILD_LIVES_S)
        with contextlib.suppress(BaseException):
            try:
                call()
            except ValueError:
                os._exit(0)
        os._exit(1)
    process = os.pidfd_open(child)
    try:
        if not select.select([process], [], [], 5.0)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -1
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(process)


def operate_in_a_child() -> int:
    return in_a_child(lambda: dist.all_reduce(torch.ones(1)))


def regroup_by_torch(uuid: int, handles: list[str]) -> None:
    c10d._reconfigure(uuid, handles).wait()


def ask_for_a_handle_in_a_child() -> int:
    import pycomms

    return in_a_child(pycomms.regroup_handle)


def fail_in_a_block() -> str:
    """An exception leaves the block open; nobody can close it any more."""
    try:
        with c10d._coalescing_manager(device=torch.device("cpu")):
            dist.all_reduce(torch.ones(1))
            raise LookupError("in the block")
    except LookupError as err:
        return str(err)


def regroup_in_a_block(uuid: int, handles: list[str]) -> str:
    import pycomms

    with c10d._coalescing_manager(device=torch.device("cpu")):
        dist.all_reduce(torch.ones(1))
        caught = needed(lambda: pycomms.regroup(uuid=uuid, handles=handles))
    return caught.kind + ": " + caught.text
