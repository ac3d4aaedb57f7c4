"""What a process whose membership changes can be asked to do. Runs on the process; see `_members`."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed import distributed_c10d as c10d

from ._errors import catch
from ._harness import context, register_backend
from ._harness.job import resolve

# Of operations of a group: whoever does not come is named after this.
GROUP_S = 20.0


@dataclass(frozen=True)
class Step:
    target: str
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Returned:
    value: Any


@dataclass(frozen=True)
class Place:
    rank: int
    size: int
    generation: int
    seconds: float


def follow(rank: int, world: int) -> None:
    """Does what the test says until it says no more. Every step is answered, with what it returned or raised; a failed
    assertion is no answer but the end.
    """
    while (step := context().hear()) is not None:
        returned: list[Any] = []
        wrong: list[AssertionError] = []

        def perform(step: Step = step, returned: list[Any] = returned, wrong: list[AssertionError] = wrong) -> None:
            try:
                returned.append(resolve(step.target)(*step.args))
            except AssertionError as err:
                wrong.append(err)

        caught = catch(perform)
        if wrong:
            raise wrong[0]
        context().tell(caught if caught is not None else Returned(returned[0]))


def init_over_store(name: str, rank: int, world: int, timeout: float = GROUP_S) -> None:
    register_backend()
    dist.init_process_group(
        "nccl2", store=context().store(name), rank=rank, world_size=world, timeout=timedelta(seconds=timeout)
    )
    dist.all_reduce(torch.ones(1))


def init_alone() -> None:
    """As a newcomer does: a group of its own, that nothing else knows of."""
    import pycomms

    options = pycomms.Options(connect=pycomms.Connect.LAZY)
    dist.init_process_group(
        "nccl2", store=HashStore(), rank=0, world_size=1, timeout=timedelta(seconds=GROUP_S), pg_options=options
    )


def init_without_members() -> None:
    """As torch >= 2.14 has it: the communicator is made by the first regroup."""
    register_backend()
    dist.init_process_group("nccl2", store=HashStore(), rank=0, world_size=1, enable_reconfigure=True)


def handle_from_torch() -> str:
    return c10d._get_reconfigure_handle()


def regroup_by_torch(uuid: int, handles: Collection[str]) -> tuple[int, int]:
    assert c10d._supports_reconfigure()
    c10d._reconfigure(uuid, handles if isinstance(handles, set) else list(handles)).wait()
    return dist.get_rank(), dist.get_world_size()


def handle() -> str:
    import pycomms

    return pycomms.regroup_handle()


def die_at(point: str) -> None:
    """The next regroup kills this process when it has come to this point."""
    from pycomms import _C

    def die(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    _C.set_regroup_probe(die)


def regroup(uuid: int, handles: Collection[str], timeout: float) -> Place:
    import pycomms

    began = time.monotonic()
    given = handles if isinstance(handles, set) else list(handles)
    pycomms.regroup(uuid=uuid, handles=given, timeout=timedelta(seconds=timeout)).wait()
    seconds = time.monotonic() - began
    return Place(dist.get_rank(), dist.get_world_size(), pycomms.generation(), seconds)


def total() -> int:
    """The sum of 8^rank over the ranks of the default group: tells who took part, up to 20 ranks."""
    tensor = torch.tensor([8 ** dist.get_rank()])
    dist.all_reduce(tensor)
    return int(tensor)


def total_of(size: int) -> int:
    return sum(8**rank for rank in range(size))


def sequence() -> int:
    group: Any = c10d._get_default_group()
    return int(group._get_sequence_number_for_group())


def place() -> tuple[int, int, int]:
    import pycomms

    return dist.get_rank(), dist.get_world_size(), pycomms.generation()


def check_group(rank: int, size: int, is_new: bool) -> None:
    """All that torch can be asked about the group, and all collectives. New: it has done nothing yet."""
    assert sequence() == 0 or not is_new
    group = c10d._get_default_group()
    assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
    assert (dist.get_rank(group), dist.get_world_size(group)) == (rank, size)
    assert (group.rank(), group.size()) == (rank, size)
    assert dist.get_process_group_ranks(group) == list(range(size))
    assert [dist.get_global_rank(group, one) for one in range(size)] == list(range(size))
    assert [dist.get_group_rank(group, one) for one in range(size)] == list(range(size))
    check_collectives(None, rank, size)


def check_collectives(group: Any, rank: int, size: int) -> None:
    """Every kind of operation, with values that tell each rank's part in the result. Ranks are those of the group."""
    ranks = dist.get_process_group_ranks(group)
    everyone = torch.arange(size)

    tensor = torch.tensor([8**rank])
    dist.all_reduce(tensor, group=group)
    assert int(tensor) == total_of(size)

    large = torch.full((100_000,), float(rank + 1))
    dist.all_reduce(large, group=group)
    assert bool(large.eq(size * (size + 1) / 2).all())

    average = torch.tensor([float(rank)], dtype=torch.float64)
    dist.all_reduce(average, op=dist.ReduceOp.AVG, group=group)
    assert abs(float(average) - (size - 1) / 2) < 1e-12

    copied = torch.tensor([rank])
    dist.broadcast(copied, ranks[size - 1], group=group)
    assert int(copied) == size - 1

    reduced = torch.tensor([8**rank])
    dist.reduce(reduced, ranks[0], group=group)
    assert rank != 0 or int(reduced) == total_of(size)

    gathered = torch.empty(size, dtype=torch.long)
    dist.all_gather_into_tensor(gathered, torch.tensor([rank]), group=group)
    assert torch.equal(gathered, everyone)

    part = torch.empty(1, dtype=torch.long)
    dist.reduce_scatter_tensor(part, everyone + rank, group=group)
    assert int(part) == rank * size + size * (size - 1) // 2

    exchanged = torch.empty(size, dtype=torch.long)
    dist.all_to_all_single(exchanged, everyone + 100 * rank, group=group)
    assert torch.equal(exchanged, everyone * 100 + rank)

    lists = [torch.empty(1, dtype=torch.long) for _ in range(size)]
    dist.gather(torch.tensor([rank]), lists if rank == 0 else None, ranks[0], group=group)
    assert rank != 0 or [int(one) for one in lists] == list(range(size))

    scattered = torch.empty(1, dtype=torch.long)
    dist.scatter(scattered, list(everyone.chunk(size)) if rank == 0 else None, ranks[0], group=group)
    assert int(scattered) == rank

    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, {"rank": rank}, group=group)
    assert objects == [{"rank": one} for one in range(size)]

    if size > 1:
        received = torch.empty(1, dtype=torch.long)
        sending = dist.isend(torch.tensor([rank]), ranks[(rank + 1) % size], group=group)
        dist.recv(received, ranks[(rank - 1) % size], group=group)
        assert sending is not None
        sending.wait()
        assert int(received) == (rank - 1) % size
    dist.barrier(group=group)
