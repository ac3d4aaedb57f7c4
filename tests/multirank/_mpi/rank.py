"""What the tests of from_mpi() run under mpirun: rank.py CASE. Prints one JSON object for each rank.

mpi4py comes from another environment than torch, whose folder MPI4PY_FROM names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta
from typing import Any

sys.path.append(os.environ["MPI4PY_FROM"])

import mpi4py
import torch
import torch.distributed as dist

import pycomms
from pycomms.process_group import from_mpi

PATIENCE_S = 60.0


def all_reduce() -> dict[str, Any]:
    place = from_mpi()
    total = torch.tensor([float(place.rank + 1)])
    dist.all_reduce(total)
    answer = {
        "sum": total.item(),
        "place": [place.rank, place.world_size, place.local_rank, place.local_world_size],
        "env": [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")],
        "backend": dist.get_backend(),
    }
    again = _error(from_mpi)
    dist.destroy_process_group()
    return {**answer, "again": again}


def hosts() -> dict[str, Any]:
    """Ranks on several hosts."""
    place = from_mpi()
    total = torch.tensor([float(place.rank + 1)])
    dist.all_reduce(total)
    dist.destroy_process_group()
    return {"host": os.uname().nodename, "sum": total.item(), "rank": place.rank, "local_rank": place.local_rank}


def halves() -> dict[str, Any]:
    """Two groups of torch.distributed in one MPI job, then one of all."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    half = world.Split(world.rank % 2)
    place = from_mpi(half)
    total = torch.tensor([float(world.rank)])
    dist.all_reduce(total)
    dist.destroy_process_group()
    whole = from_mpi(timeout=timedelta(seconds=PATIENCE_S))
    dist.barrier()
    dist.destroy_process_group()
    return {"rank": place.rank, "sum": total.item(), "world": whole.world_size}


def wrong() -> dict[str, Any]:
    from mpi4py import MPI

    null = _error(from_mpi, MPI.COMM_NULL)
    # TCP has no broadcasts: refused by the own host.
    away = _error(from_mpi, address="255.255.255.255", connect_timeout=timedelta(seconds=6))
    here = from_mpi()  # what failed did no harm
    dist.barrier()
    dist.destroy_process_group()
    return {"null": null, "away": away, "then": here.world_size}


def absent() -> dict[str, Any]:
    """Rank 1 does not come."""
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank == 1:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        signal.sigtimedwait({signal.SIGTERM}, PATIENCE_S)  # that is how rank 0 ends the job, unless it kills
        return {}
    answer = {"late": _error(from_mpi, connect_timeout=timedelta(seconds=0.5))}
    print(json.dumps(answer), flush=True)
    MPI.COMM_WORLD.Abort(3)
    raise AssertionError


def not_begun() -> dict[str, Any]:
    mpi4py.rc.initialize = False
    answer = _error(from_mpi)
    mpi4py.MPI.Init()
    mpi4py.MPI.Finalize()
    return {"before": answer, "after": _error(from_mpi)}


def _error(call: Any, *args: Any, **kwargs: Any) -> str:
    try:
        call(*args, **kwargs)
    except (RuntimeError, ValueError, pycomms.PycommsError) as err:
        return f"{type(err).__name__}: {err}"
    return "no error"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(globals()[sys.argv[1]]()), flush=True)
