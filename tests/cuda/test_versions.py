"""What pycomms knows of NCCL and CUDA without touching them: versions, device ids, groups of the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from tests.multirank._errors import needed
from tests.multirank._harness import Ranks, context


def versions(rank: int, world: int) -> None:
    import pycomms

    found = pycomms.nccl_version()
    assert found.built >= (2, 30, 0)
    assert found.loaded == (2, 30, 7)  # what the emulated one says
    assert not torch.cuda.is_initialized()


def test_versions(ranks: Ranks) -> None:
    ranks.run(versions, world=1, init=False, fresh=True)


def stay_on_the_cpu(rank: int, world: int) -> None:
    import pycomms

    for attempt in range(2):
        context().init(f"world {attempt}")
        tensor = torch.ones(4)
        dist.all_reduce(tensor)
        dist.barrier()
        part: Any = dist.new_group([0])
        if rank == 0:
            dist.all_reduce(tensor, group=part)
        if attempt == 0:
            dist.destroy_process_group()
        else:
            dist.distributed_c10d._abort_process_group()
    assert pycomms.nccl_version().loaded is not None
    assert torch.cuda.is_available()
    assert not torch.cuda.is_initialized()


def test_a_group_of_the_cpu_never_initialises_cuda(ranks: Ranks) -> None:
    ranks.run(stay_on_the_cpu, world=2, init=False, fresh=True)


def bound(rank: int, world: int, device: Any) -> None:
    torch.cuda.set_device(1)
    context().init("bound", device_id=device)
    tensor = torch.ones(4, device="cuda:1")
    dist.all_reduce(tensor)
    assert tensor.tolist() == [world] * 4
    dist.barrier()
    part: Any = dist.new_group(list(range(world)))
    dist.all_reduce(tensor, group=part)
    assert tensor.tolist() == [world * world] * 4


@pytest.mark.parametrize("device", [1, torch.device("cuda:1")], ids=str)
def test_device_ids(ranks: Ranks, device: Any) -> None:
    ranks.run(bound, device, world=2, init=False, fresh=True)


def bound_later(rank: int, world: int) -> None:
    torch.cuda.set_device(1)
    backend: Any = _get_default_group()._get_backend(torch.device("cuda"))
    backend.eager_connect_single_device(torch.device("cuda"))  # the current one
    assert backend.comm_ptr != 0
    tensor = torch.ones(4, device="cuda:1")
    dist.all_reduce(tensor)
    assert tensor.tolist() == [world] * 4


def test_a_device_without_an_index_is_the_current_one(ranks: Ranks) -> None:
    ranks.run(bound_later, world=2, fresh=True)


def raw_communicator(rank: int, world: int) -> None:
    backend: Any = _get_default_group()._get_backend(torch.device("cuda"))
    assert needed(lambda: backend.comm_ptr).kind == "ValueError"  # none yet
    dist.all_reduce(torch.ones(4, device="cuda"))
    comm = backend.comm_ptr
    assert comm == backend._comm_ptr() != 0
    assert _rank_of(comm) == rank
    backend.suspend()
    assert needed(lambda: backend.comm_ptr).kind == "ValueError"


def _rank_of(comm: int) -> int:
    """As another library would ask NCCL."""
    import ctypes

    from ._preload import nccl  # on a rank only

    value = ctypes.c_int(-1)
    assert nccl.library.ncclCommUserRank(ctypes.c_void_p(comm), ctypes.byref(value)) == 0
    return value.value


def test_the_raw_communicator(ranks: Ranks) -> None:
    ranks.run(raw_communicator, world=2, fresh=True)


# --- deterministic mode


def deterministic(rank: int, world: int, how: str) -> str | None:
    import os

    os.environ.pop("NCCL_NVLS_ENABLE", None)
    os.environ.pop("NCCL_ALGO", None)
    if how == "variable":
        os.environ["PYCOMMS_DETERMINISTIC"] = "1"
    elif how == "torch":
        torch.use_deterministic_algorithms(True)
    elif how == "chosen":
        os.environ.update(PYCOMMS_DETERMINISTIC="1", NCCL_ALGO="NVLS")
    from pycomms._config import config

    config.cache_clear()
    context().init()
    dist.all_reduce(torch.ones(4, device="cuda"))
    return os.environ.get("NCCL_NVLS_ENABLE")


@pytest.mark.parametrize(("how", "nvls"), [("off", None), ("variable", "0"), ("torch", "0"), ("chosen", None)])
def test_nvls_is_off_in_deterministic_mode(ranks: Ranks, how: str, nvls: str | None) -> None:
    assert ranks.run(deterministic, how, world=1, init=False, fresh=True) == [nvls]
