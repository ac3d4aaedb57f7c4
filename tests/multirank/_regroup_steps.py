"""States that a group can be in when it is regrouped, made on the process. Each says how its operations ended."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.distributed import distributed_c10d as c10d

from ._errors import Caught, catch, needed
from ._harness import register_backend

_COUNT = 4
_DEADLINE_S = 20.0


def abort() -> str:
    c10d._get_default_group().abort()
    return needed(lambda: dist.all_reduce(torch.ones(1))).kind


def time_out() -> str:
    """The last rank does not come in the group's timeout."""
    if dist.get_rank() == dist.get_world_size() - 1:
        return ""
    return needed(lambda: dist.all_reduce(torch.ones(1))).kind


def mismatch() -> str:
    return needed(lambda: dist.all_reduce(torch.ones(dist.get_rank() + 1))).kind


def send_and_receive() -> int:
    """Between ranks 1 and 2."""
    tensor = torch.tensor([dist.get_rank()])
    if dist.get_rank() == 1:
        dist.send(tensor, 2)
    else:
        dist.recv(tensor, 1)
        tensor += 1
    return int(tensor)


@dataclass(frozen=True)
class Found:
    kinds: set[str]
    completed: bool
    successes: int
    untouched: bool


_works: list[tuple[torch.Tensor, Any]] = []
_thread: list[threading.Thread] = []
_ended: list[str] = []


def leave_in_flight() -> None:
    """Operations of several kinds and sizes that not all ranks come to."""
    for size in (1, 1000, 300_000):
        for _ in range(_COUNT):
            tensor = torch.full((size,), 7.0)
            _works.append((tensor, dist.all_reduce(tensor, async_op=True)))
    received = torch.full((10,), 7.0)
    _works.append((received, dist.irecv(received, 2)))


def what_became_of_them() -> Found:
    kinds = {needed(partial(work.wait, timedelta(seconds=_DEADLINE_S))).kind for _, work in _works}
    return Found(
        kinds=kinds,
        completed=all(work.is_completed() for _, work in _works),
        successes=sum(work.is_success() for _, work in _works),
        untouched=all(bool(tensor.eq(7.0).all()) for tensor, _ in _works),
    )


def block_in_a_thread() -> None:
    entered = threading.Event()

    def block() -> None:
        entered.set()
        caught = catch(lambda: dist.all_reduce(torch.ones(1)))
        _ended.append(caught.kind if caught else "")

    _thread.append(threading.Thread(target=block, daemon=True))
    _thread[0].start()
    entered.wait(_DEADLINE_S)


def how_the_thread_ended() -> str:
    _thread[0].join(_DEADLINE_S)
    return _ended[0]


_store: list[TCPStore] = []


def serve_a_store() -> int:
    _store.append(TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False))
    return _store[0].port


def init_over_tcp(port: int, rank: int, world: int) -> None:
    register_backend()
    store = TCPStore("127.0.0.1", port, None, False)
    dist.init_process_group("nccl2", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=_DEADLINE_S))
    dist.all_reduce(torch.ones(1))


@dataclass(frozen=True)
class Pause:
    block: Caught
    operation: Caught
    again: Caught
    end: Caught


def use_while_regrouping(uuid: int, another: int, handles: list[str]) -> Pause:
    """The others do not come."""
    work = _begin(uuid, handles, 1.0)
    return Pause(
        block=needed(_open_block),
        operation=needed(lambda: dist.all_reduce(torch.ones(1))),
        again=needed(lambda: _begin(another, handles, 1.0)),
        end=needed(work.wait),
    )


def _open_block() -> None:
    with c10d._coalescing_manager(device=torch.device("cpu")):
        pass


def abort_while_regrouping(uuid: int, handles: list[str]) -> Caught:
    work = _begin(uuid, handles, _DEADLINE_S)
    c10d._get_default_group().abort()
    return needed(work.wait)


def _begin(uuid: int, handles: list[str], seconds: float) -> Any:
    import pycomms

    return pycomms.regroup(uuid=uuid, handles=handles, timeout=timedelta(seconds=seconds))
