"""What members of a schedule are asked to do, beside what `_member_steps` has. Runs on the process."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

_LARGE = 1 << 20


def _issue(operation: str, asynchronous: bool = False) -> Any:
    world = dist.get_world_size()
    own = torch.ones(256)
    if operation == "all_reduce":
        return dist.all_reduce(own, async_op=asynchronous)
    if operation == "all_reduce_large":
        return dist.all_reduce(torch.ones(_LARGE), async_op=asynchronous)
    if operation == "broadcast":
        return dist.broadcast(own, 0, async_op=asynchronous)
    if operation == "all_gather":
        return dist.all_gather_into_tensor(torch.empty(256 * world), own, async_op=asynchronous)
    if operation == "reduce_scatter":
        return dist.reduce_scatter_tensor(own, torch.ones(256 * world), async_op=asynchronous)
    if operation == "all_to_all":
        return dist.all_to_all_single(torch.empty(256 * world), torch.ones(256 * world), async_op=asynchronous)
    if operation == "barrier":
        return dist.barrier(async_op=asynchronous)
    raise ValueError(operation)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work_until_it_fails(operation: str, limit: float) -> None:
    """Runs the operation over and over; raises what it raises."""
    ends = time.monotonic() + limit
    while time.monotonic() < ends:
        _issue(operation)
    raise AssertionError(f"{operation} went on for {limit} s though a member was to die")


def work_and_die(operation: str, turns: int) -> None:
    """Dies with an operation in flight, or in one that another death has ended before."""
    with contextlib.suppress(dist.DistBackendError):
        for _ in range(turns):
            _issue(operation)
        _issue(operation, asynchronous=True)
    die()


_in_flight: list[Any] = []


def leave_in_flight(operation: str) -> None:
    _in_flight.extend(_issue(operation, asynchronous=True) for _ in range(3))


def check_that_none_succeeded() -> list[str]:
    """What those ended with that were in flight when the group was given up."""
    ended = []
    for work in _in_flight:
        try:
            work.wait(timedelta(seconds=10))
        except Exception as err:
            ended.append(type(err).__name__)
        else:
            raise AssertionError("an operation that not all members had issued reports success")
        assert not work.is_success()
    _in_flight.clear()
    return ended


def abort() -> None:
    group: Any = c10d._get_default_group()
    group._get_backend(torch.device("cpu")).abort()


def time_out(seconds: float) -> None:
    """An operation that one member does not join."""
    group: Any = c10d._get_default_group()
    group.allreduce([torch.ones(1)], _options(seconds)).wait()


def _options(seconds: float) -> Any:
    options = dist.AllreduceOptions()
    options.timeout = timedelta(seconds=seconds)
    return options


def disagree(count: int) -> None:
    dist.all_reduce(torch.ones(count))


def rank() -> int:
    return dist.get_rank()
