"""The flight recorder with GPU tensors: our own operations, and the dumps that torch's own NCCL backend writes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager
from torch.torch_version import TorchVersion

from pycomms import flight_recorder
from pycomms.flight_recorder._load import load
from pycomms.flight_recorder._model import Flag, State
from pycomms.flight_recorder.analysis import Verdict, analyze
from tests.multirank._harness import Ranks, context
from tests.multirank._recorded import Seen, my_record, recorded, seen_in


def check_fields(rank: int, world: int) -> None:
    tensor = torch.ones(4, device="cuda")
    dist.all_reduce(tensor)  # makes the group's communicator

    def calls() -> None:
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
        work = dist.all_reduce(tensor, async_op=True)
        assert work is not None
        work.wait()
        with _coalescing_manager(async_ops=False, device=torch.device("cuda")):
            dist.all_reduce(tensor)
            dist.all_reduce(torch.ones(7, device="cuda"))
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, tensor, (rank + 1) % world),
                dist.P2POp(dist.irecv, torch.empty(4, device="cuda"), (rank - 1) % world),
            ]
        )
        for one in works:
            one.wait()
        torch.cuda.synchronize()
        dist.barrier()

    seen = recorded(calls)
    assert {one.group for one in seen} == {"0/cuda"}
    assert {one.state for one in seen} == {State.COMPLETED}, seen
    kinds = [one.signature.kind for one in seen]
    assert kinds[:2] == ["all_reduce", "all_reduce"]
    assert seen[0].signature.reduction == "max"
    assert Flag.ASYNC in seen[1].flags
    assert sorted(kind for kind in kinds if kind in ("send", "recv")) == ["recv", "send"]
    assert all(one.site.startswith(__file__) for one in seen[:2])
    collectives = [one.sequence for one in seen if Flag.P2P not in one.flags]
    assert collectives == sorted(collectives)
    assert my_record().groups[-1].ranks == tuple(range(world))


@pytest.mark.parametrize("world", [2, 4])
def test_our_operations_on_gpu_tensors(ranks: Ranks, world: int) -> None:
    ranks.run(check_fields, world=world, fresh=True)


def write_torchs_dump(rank: int, world: int, folder: str, fault: bool) -> None:
    from torch._C._distributed_c10d import _dump_nccl_trace  # type: ignore[attr-defined]  # not in the stubs

    store = context().store("torch's own")
    torch.cuda.set_device(rank)
    # With torch 2.15 nccl is another backend, which that recorder does not know of.
    own = "nccl" if TorchVersion(torch.__version__) < "2.15" else "nccl-legacy"
    dist.init_process_group(own, rank=rank, world_size=world, store=store)
    tensor = torch.ones(4, device="cuda")
    for _ in range(3):
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    if not fault or rank != world - 1:
        dist.broadcast(tensor, src=0, async_op=True)
    if not fault:
        torch.cuda.synchronize()
    Path(folder, f"nccl_trace_rank_{rank}").write_bytes(_dump_nccl_trace())
    store.set(f"written{rank}", "")
    store.wait([f"written{other}" for other in range(world)])
    context().tell("written")
    context().hear()  # a stuck operation is not waited for


@pytest.mark.parametrize("fault", [False, True])
def test_dumps_of_torchs_own_backend(ranks: Ranks, tmp_path: Path, fault: bool) -> None:
    with ranks.start(
        write_torchs_dump, str(tmp_path), fault, world=2, init=False, env={"TORCH_FR_BUFFER_SIZE": "100"}
    ) as run:
        for rank in range(2):
            assert run.told(rank) == "written"
    dumps = sorted(tmp_path.iterdir())
    for path in dumps:  # what has waited for less than a second is not late yet
        os.utime(path, ns=(path.stat().st_mtime_ns, path.stat().st_mtime_ns + 5_000_000_000))
    analysis = analyze(load(dumps).records)
    if fault:
        assert analysis.verdict is Verdict.MISSING_RANK
        assert analysis.root_ranks == (1,)
    else:
        assert analysis.verdict is Verdict.HEALTHY, analysis


def issue_with_torchs_nccl(rank: int, world: int) -> None:
    torch.cuda.set_device(rank)
    with flight_recorder.attach():
        dist.init_process_group("nccl", rank=rank, world_size=world, store=context().store("torch's own"))
        tensor = torch.ones(4, device="cuda")
        for _ in range(3):
            dist.all_reduce(tensor)
        dist.barrier()
        torch.cuda.synchronize()
        _await(lambda seen: len(seen) == 4 and all(one.state == State.COMPLETED for one in seen))
        if rank == 0:
            dist.broadcast(tensor, src=0, async_op=True)  # the other one does not come
        context().meet("issued")
        open_ops = [one for one in seen_in(my_record()) if not one.state.has_ended]
        assert [one.signature.kind for one in open_ops] == (["broadcast"] if rank == 0 else [])
        assert not any(Flag.NO_COMPLETION in one.flags for one in open_ops)
    context().tell("looked")
    context().hear()  # a stuck operation is not waited for


def _await(holds: Callable[[list[Seen]], bool]) -> None:
    """The recorder asks every few milliseconds what has ended."""
    deadline = time.monotonic() + 30
    while not holds(seen := seen_in(my_record())):
        assert time.monotonic() < deadline, seen


def test_attach_sees_when_torchs_own_nccl_ends(ranks: Ranks) -> None:
    """Its futures are complete when an operation is issued: that is not taken for its end."""
    with ranks.start(issue_with_torchs_nccl, world=2, init=False, fresh=True) as run:
        for rank in range(2):
            assert run.told(rank) == "looked"
