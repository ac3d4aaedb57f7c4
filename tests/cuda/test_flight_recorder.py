"""The flight recorder with GPU tensors: our own operations, and the dumps that torch's own NCCL backend writes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from pycomms.flight_recorder._load import load
from pycomms.flight_recorder._model import Flag, State
from pycomms.flight_recorder.analysis import Verdict, analyze
from tests.multirank._harness import Ranks, context
from tests.multirank.test_flight_recorder import my_record, recorded


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
    dist.init_process_group("nccl", rank=rank, world_size=world, store=store)
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
    analysis = analyze(load(sorted(tmp_path.iterdir())).records)
    if fault:
        assert analysis.verdict is Verdict.MISSING_RANK
        assert analysis.root_ranks == (1,)
    else:
        assert analysis.verdict is Verdict.HEALTHY, analysis
