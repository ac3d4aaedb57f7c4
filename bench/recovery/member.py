"""A process of a job that regroups in place: it does what the parent says, line by line.

{"do": "reduce"}                              all_reduce until it raises -> {"reducing": 1}, then {"raised_ns": ...}
{"do": "regroup", "uuid": .., "handles": ..}  -> {"began_ns", "regrouped_ns", "verified_ns", "handle"}

python -m bench.recovery.member --socket S --job J --contestant gloo --number 3 --store-port P --resident BYTES
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, Store, TCPStore
from torch.distributed import distributed_c10d as c10d

from bench.recovery.work import reduce_until_it_raises, touch, verified_all_reduce
from pycomms.bench.protocol import Hello, Link, connect

REGROUP_TIMEOUT = timedelta(seconds=20)
GLOO_TIMEOUT = timedelta(seconds=3)
OUR_TIMEOUT = timedelta(seconds=20)


@dataclass(frozen=True, kw_only=True)
class Backend:
    """How a group is made that has only this process, and how it becomes one with others."""

    version: str
    handle: Callable[[], str]
    regroup: Callable[[int, Sequence[str]], Any]


def _nccl2(_number: int, _store_port: int) -> Backend:
    import pycomms

    options = pycomms.Options(connect=pycomms.Connect.LAZY)
    dist.init_process_group("nccl2", store=HashStore(), rank=0, world_size=1, timeout=OUR_TIMEOUT, pg_options=options)
    return Backend(
        version=f"pycomms {pycomms.__version__}",
        handle=pycomms.regroup_handle,
        regroup=lambda uuid, handles: pycomms.regroup(uuid=uuid, handles=list(handles), timeout=REGROUP_TIMEOUT),
    )


def _gloo(number: int, store_port: int) -> Backend:
    """Its handles are meant for one store that all share, and unique only if the first ranks are."""
    store: Store = TCPStore("127.0.0.1", store_port, None, False)
    dist.init_process_group(
        "gloo", store=store, rank=number, world_size=number + 1, timeout=GLOO_TIMEOUT, enable_reconfigure=True
    )
    return Backend(
        version=f"torch {torch.__version__}",
        handle=c10d._get_reconfigure_handle,
        regroup=lambda uuid, handles: c10d._reconfigure(uuid, list(handles), timeout=REGROUP_TIMEOUT),
    )


BACKENDS = {"nccl2": _nccl2, "gloo": _gloo}


def reduce(link: Link, backend: Backend) -> None:
    try:
        reduce_until_it_raises(link)
    except RuntimeError as err:  # DistBackendError is one; gloo raises it bare
        raised = time.monotonic_ns()
        link.send(json.dumps({"raised_ns": raised, "error": type(err).__name__, "handle": backend.handle()}))


def regroup(link: Link, backend: Backend, uuid: int, handles: Sequence[str]) -> None:
    began = time.monotonic_ns()
    backend.regroup(uuid, handles).wait()
    regrouped = time.monotonic_ns()
    if dist.get_world_size() != len(handles):
        raise RuntimeError(f"the new group has {dist.get_world_size()} ranks, not {len(handles)}")
    verified_all_reduce()
    verified = time.monotonic_ns()
    times = {"began_ns": began, "regrouped_ns": regrouped, "verified_ns": verified}
    link.send(json.dumps({**times, "handle": backend.handle()}))


def serve(link: Link, backend: Backend) -> None:
    while True:
        command = json.loads(link.receive(None))
        try:
            if command["do"] == "reduce":
                reduce(link, backend)
            else:
                regroup(link, backend, command["uuid"], command["handles"])
        except (RuntimeError, ValueError) as err:
            link.send(json.dumps({"failure": f"{command['do']}: {type(err).__name__}: {err}"[:500]}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--contestant", required=True, choices=sorted(BACKENDS))
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--store-port", type=int, required=True)
    parser.add_argument("--resident", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    touch(args.resident)
    backend = BACKENDS[args.contestant](args.number, args.store_port)
    link = connect(args.socket, Hello(contestant=args.job, rank=args.number, pid=os.getpid(), version=backend.version))
    link.send(json.dumps({"handle": backend.handle()}))
    serve(link, backend)


if __name__ == "__main__":
    main()
