"""torch.distributed on the ranks of an MPI job. The only module that knows mpi4py, and it imports it only when asked.

MPI says who is here and carries one address; from then on torch's store and the backend are on their own.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torch.distributed.constants import default_pg_timeout

from pycomms._config import set_in_environment
from pycomms.errors import CollectiveTimeout, EngineError

if TYPE_CHECKING:
    import torch
    from mpi4py import MPI

CONNECT_TIMEOUT = timedelta(seconds=60)
_LETTER_BYTES = 1024
_LOOK_S = 0.001
_OP = "from_mpi"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where this process is. local_rank: its place among the members of the communicator on its host."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int


def from_mpi(
    comm: MPI.Intracomm | None = None,
    *,
    backend: str = "nccl2",
    timeout: timedelta | None = None,
    connect_timeout: timedelta = CONNECT_TIMEOUT,
    address: str | None = None,
    pg_options: Any = None,
    device_id: torch.device | None = None,
) -> Place:
    """Initialises torch.distributed under ``mpirun``. Collective over ``comm``.

    Rank and world size are those of the communicator. Rank 0 opens torch's store on a free port, and MPI tells the
    others where. RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE are set in the environment, as under torchrun.

    At the end call ``torch.distributed.destroy_process_group()`` before MPI is finalised (mpi4py does that when the
    interpreter ends). MPI stays usable beside the group; no call of the group goes through MPI.

    Args:
        comm: the members, ``MPI.COMM_WORLD`` by default.
        backend: of the default group, as for ``init_process_group``.
        timeout: of the group's operations; None is torch's default.
        connect_timeout: for everything in here, together.
        address: where the others reach rank 0. Default: the loopback on one host, else rank 0's host name. What rank 0
            says counts.
        pg_options, device_id: as for ``init_process_group``.

    Returns:
        The place of this process, for example to choose a device by ``local_rank``.

    Raises:
        ImportError: mpi4py is missing, or finds no MPI library.
        RuntimeError: MPI is not initialised, or is finalised; torch.distributed is initialised already.
        TypeError: ``connect_timeout`` is no timedelta.
        ValueError: ``comm`` is null, or an intercommunicator.
        pycomms.CollectiveTimeout: not all members called this in time. MPI cannot go on after that: end the job with
            ``comm.Abort()``, or start it with ``python -m mpi4py``, which does so.
        pycomms.EngineError: some ranks did not reach the store; every rank raises it, and names them.
    """
    if not isinstance(connect_timeout, timedelta):
        raise TypeError(f"from_mpi(): connect_timeout is {connect_timeout!r}, expected a timedelta")
    mpi = _ready_mpi()
    members = _checked(mpi, mpi.COMM_WORLD if comm is None else comm)
    deadline = time.monotonic() + connect_timeout.total_seconds()
    place = _meet(mpi, members, deadline)
    store = _open_store(members, place, address, deadline)
    set_in_environment(
        {
            "RANK": str(place.rank),
            "WORLD_SIZE": str(place.world_size),
            "LOCAL_RANK": str(place.local_rank),
            "LOCAL_WORLD_SIZE": str(place.local_world_size),
        }
    )
    store.set_timeout(timeout or default_pg_timeout)
    dist.init_process_group(
        backend,
        store=store,
        rank=place.rank,
        world_size=place.world_size,
        timeout=timeout,
        pg_options=pg_options,
        device_id=device_id,
    )
    return place


def _ready_mpi() -> Any:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as err:
        raise ImportError(
            f"from_mpi() needs mpi4py and an MPI library, and cannot load them ({err}): pip install 'pycomms[mpi]'"
        ) from err
    if not MPI.Is_initialized():
        raise RuntimeError(
            "from_mpi(): MPI is not initialised; mpi4py.rc.initialize is False, so call MPI.Init() before"
        )
    if MPI.Is_finalized():
        raise RuntimeError("from_mpi(): MPI is finalised already")
    if dist.is_initialized():
        raise RuntimeError(
            "from_mpi(): torch.distributed is initialised already; destroy_process_group() ends that group"
        )
    return MPI


def _checked(mpi: Any, comm: Any) -> Any:
    if comm == mpi.COMM_NULL:
        raise ValueError("comm is MPI.COMM_NULL: this process is no member of the communicator; expected a member")
    if comm.Is_inter():
        raise ValueError(
            "comm is an intercommunicator; expected an intracommunicator, such as comm.Merge() makes of it"
        )
    return comm


def _meet(mpi: Any, comm: Any, deadline: float) -> Place:
    rank, size = comm.Get_rank(), comm.Get_size()
    if not _done(comm.Ibarrier(), deadline):
        raise CollectiveTimeout(
            f"from_mpi(): not all {size} members of {comm.Get_name() or 'the communicator'} called it in time",
            op=_OP,
            rank=rank,
        )
    here = comm.Split_type(mpi.COMM_TYPE_SHARED, key=rank)  # blocks, but now all are there
    place = Place(rank=rank, world_size=size, local_rank=here.Get_rank(), local_world_size=here.Get_size())
    here.Free()
    return place


def _open_store(comm: Any, place: Place, address: str | None, deadline: float) -> TCPStore:
    """Rank 0 opens it, then all connect, and either all have it or all raise."""
    store, letter = None, {}
    if place.rank == 0:
        one_host = place.local_world_size == place.world_size
        letter = {"address": address or ("localhost" if one_host else socket.gethostname())}
        store, problem = _store("localhost", 0, place, deadline)  # it listens on every address
        letter |= {"port": str(store.port)} if store else {"problem": problem}
    page = bytearray(json.dumps(letter).encode()[:_LETTER_BYTES].ljust(_LETTER_BYTES))
    _await(comm.Ibcast(page, root=0), place, deadline)
    letter = json.loads(page)
    problem = letter.get("problem", "")
    if place.rank != 0 and not problem:
        store, problem = _store(letter["address"], int(letter["port"]), place, deadline)
    without = bytearray(place.world_size)
    _await(comm.Iallgather(bytearray([store is None]), without), place, deadline)
    if store is None or any(without):
        ranks = tuple(rank for rank, missing in enumerate(without) if missing)
        raise EngineError(
            f"from_mpi(): rank {', '.join(map(str, ranks))} of {place.world_size} did not reach the store of rank 0 at "
            f"{letter['address']}{': ' + problem if problem else ''}; address= says where rank 0 is reached",
            ranks=ranks,
            op=_OP,
            rank=place.rank,
        )
    return store


def _store(address: str, port: int, place: Place, deadline: float) -> tuple[TCPStore | None, str]:
    """The store and no problem, or no store and the problem. Port 0: opens it."""
    left = timedelta(seconds=max(0.1, (deadline - time.monotonic()) / 2))  # the rest is for telling the others
    try:
        return TCPStore(address, port, place.world_size, port == 0, left, wait_for_workers=False), ""
    except (RuntimeError, ValueError) as err:
        return None, str(err).splitlines()[0][:100]


def _await(request: Any, place: Place, deadline: float) -> None:
    if not _done(request, deadline):
        raise CollectiveTimeout("from_mpi(): a member went away, or connect_timeout is short", op=_OP, rank=place.rank)


def _done(request: Any, deadline: float) -> bool:
    """Whether a nonblocking operation of MPI ended in time: its blocking ones know no deadline."""
    while not request.Test():
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True
