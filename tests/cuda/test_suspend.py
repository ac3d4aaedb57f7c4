"""Groups that give their memory on the GPU back for a while, and what they tell about it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_group

from tests.multirank._errors import Caught, needed
from tests.multirank._harness import Ranks, context

from ._delays import DELAYS


def _backend() -> Any:
    return _get_default_group()._get_backend(torch.device("cuda"))


def _sum(device: str = "cuda") -> list[float]:
    tensor = torch.ones(4, device=device)
    dist.all_reduce(tensor)
    return tensor.tolist()


def suspend_and_resume(rank: int, world: int) -> list[Caught]:
    from ._preload import emulator, nccl  # on a rank only

    backend = _backend()
    caught = [needed(backend.suspend), needed(backend.memory_stats)]  # it has no communicator on the GPU yet
    assert _sum() == [world] * 4
    caught.append(needed(backend.resume))
    before = backend.memory_stats()
    assert before["suspend"] > 0
    assert before["suspended"] == 0
    assert before["total"] == before["suspend"] + before["persist"]

    tensor = torch.ones(4, device="cuda")
    with emulator.delays(DELAYS["300us"]):
        work = dist.all_reduce(tensor, async_op=True)
        backend.suspend()  # waits for it
    assert work is not None
    assert work.is_completed()
    assert backend.memory_stats()["suspended"] == 1
    issued = nccl.calls("ncclAllReduce")
    caught += [needed(_sum), needed(backend.suspend)]
    assert nccl.calls("ncclAllReduce") == issued
    assert _sum("cpu") == [world] * 4
    backend.resume()
    assert _sum() == [world] * 4
    assert backend.memory_stats()["suspended"] == 0
    return caught


def test_suspend_and_resume(ranks: Ranks) -> None:
    for caught in ranks.run(suspend_and_resume, world=2, fresh=True):
        assert [one.kind for one in caught] == ["ValueError"] * 5, caught
        for one, said in zip(caught, ("GPU", "GPU", "ready, not suspended", "resume()", "resume()"), strict=True):
            assert said in one.text, one


def suspend_while_stuck(rank: int, world: int) -> Caught:
    from ._preload import emulator  # on a rank only

    _sum()
    torch.cuda.synchronize()
    with emulator.held(torch.cuda.current_stream()):
        work = dist.all_reduce(torch.ones(4, device="cuda"), async_op=True)
        dist.set_timeout(timedelta(seconds=1))
        caught = needed(_backend().suspend)
    dist.set_timeout(timedelta(seconds=30))
    assert work is not None
    work.wait()
    assert _sum() == [world] * 4
    return caught


def test_what_is_in_flight_at_the_deadline_is_not_suspended(ranks: Ranks) -> None:
    for caught in ranks.run(suspend_while_stuck, world=2, fresh=True):
        assert caught.kind == "CollectiveTimeout", caught
        assert "in flight" in caught.text
        assert caught.seconds() < 5.0


def end_suspended(rank: int, world: int, how: str) -> None:
    from ._preload import nccl  # on a rank only

    _sum()
    _backend().suspend()
    context().signpost(f"suspended {rank}")
    for other in range(world):
        context().await_signpost(f"suspended {other}")
    if how == "destroy":
        dist.destroy_process_group()
    else:
        dist.distributed_c10d._abort_process_group()
    assert nccl.live().communicators == 0
    context().init("after", timeout=30.0)
    assert _sum() == [world] * 4


def test_a_suspended_group_can_be_destroyed(ranks: Ranks) -> None:
    ranks.run(end_suspended, "destroy", world=2, fresh=True)


def test_a_suspended_group_can_be_aborted(ranks: Ranks) -> None:
    ranks.run(end_suspended, "abort", world=2, fresh=True)
