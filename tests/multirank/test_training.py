"""What users build on collectives: DDP, FSDP2, functional collectives, torch.compile. The reference is one process."""

from __future__ import annotations

import copy
import os
import signal

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.distributed_c10d import _get_default_group
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from ._errors import needed
from ._harness import Ranks

_STEPS = 5
_BATCH = 12  # divides by 1, 2, 3 and 4


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 50), torch.nn.Tanh(), torch.nn.Linear(50, 3)).double()


def _batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    torch.manual_seed(1)
    return [(torch.randn(_BATCH, 20).double(), torch.randn(_BATCH, 3).double()) for _ in range(_STEPS)]


def _train(model: torch.nn.Module, rank: int, world: int) -> list[float]:
    """Losses of the whole batch, step by step; each rank has its part of it."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    part = slice(rank * _BATCH // world, (rank + 1) * _BATCH // world)
    for inputs, targets in _batches():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs[part]), targets[part])
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        if world > 1:
            dist.all_reduce(total)
        losses.append(float(total) / world)
    return losses


def check_ddp(rank: int, world: int) -> None:
    alone = _model()
    expected = _train(alone, 0, 1)
    # Small buckets: several all_reduces in flight while the backward pass goes on.
    model = DistributedDataParallel(_model(), bucket_cap_mb=0.001)
    torch.testing.assert_close(_train(model, rank, world), expected, rtol=1e-12, atol=1e-14)
    for mine, theirs in zip(model.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_ddp_equals_one_process(ranks: Ranks, world: int) -> None:
    ranks.run(check_ddp, world=world)


def check_fsdp(rank: int, world: int) -> None:
    alone = _model()
    expected = _train(alone, 0, 1)
    model = _model()
    fully_shard(model)
    torch.testing.assert_close(_train(model, rank, world), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.nccl2_only("FSDP2 needs reductions that gloo lacks")
@pytest.mark.parametrize("world", [1, 2, 4])
def test_fsdp2_equals_one_process(ranks: Ranks, world: int) -> None:
    ranks.run(check_fsdp, world=world)


def check_functional(rank: int, world: int) -> None:
    group = _get_default_group()
    mine = torch.full((4,), float(rank))
    total = functional.all_reduce(mine, "sum", group)
    assert torch.equal(functional.wait_tensor(total), torch.full((4,), world * (world - 1) / 2))
    assert torch.equal(mine, torch.full((4,), float(rank)))
    gathered = functional.all_gather_tensor(mine, 0, group)
    assert torch.equal(gathered, torch.arange(world, dtype=torch.float32).repeat_interleave(4))
    scattered = functional.reduce_scatter_tensor(torch.ones(2 * world), "sum", 0, group)
    assert torch.equal(scattered, torch.full((2,), float(world)))
    copied = functional.broadcast(mine, world - 1, group)
    assert torch.equal(copied, torch.full((4,), float(world - 1)))
    exchanged = functional.all_to_all_single(torch.arange(world) + 10 * rank, [1] * world, [1] * world, group)
    assert torch.equal(exchanged, torch.arange(world) * 10 + rank)
    many = functional.all_reduce_coalesced([mine, mine + 1], "sum", group)
    assert [float(functional.wait_tensor(one)[0]) for one in many] == [
        world * (world - 1) / 2,
        world * (world - 1) / 2 + world,
    ]


@pytest.mark.parametrize("world", [1, 2, 3])
def test_functional_collectives(ranks: Ranks, world: int) -> None:
    ranks.run(check_functional, world=world)


def check_compiled(rank: int, world: int, compiler: str) -> None:
    def step(tensor: torch.Tensor) -> torch.Tensor:
        doubled = tensor * 2
        dist.all_reduce(doubled)
        return torch.relu(doubled + 1)

    tensor = torch.full((8,), float(rank))
    expected = step(copy.deepcopy(tensor))
    compiled = torch.compile(step, fullgraph=True, backend=compiler)
    torch.testing.assert_close(compiled(tensor), expected)
    torch.testing.assert_close(compiled(tensor), expected)


def test_compiled_graph(ranks: Ranks, long: bool) -> None:
    """`--long` takes the compiler that generates code, too: a minute on two cores."""
    for compiler in ["aot_eager", "inductor"] if long else ["aot_eager"]:
        ranks.run(check_compiled, compiler, world=2, fresh=True, timeout=110.0)


def check_nan(rank: int, world: int) -> None:
    """MIN and MAX hand on a NaN of any rank, as torch.minimum does, at every position."""
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX):
            values = torch.full((100,), float(rank + 1))
            values[rank :: world + 1] = float("nan")
            tensor = values.to(dtype)
            dist.all_reduce(tensor, op=op)
            has_nan = torch.isnan(tensor.float())
            wanted = torch.tensor([index % (world + 1) < world for index in range(100)])
            assert torch.equal(has_nan, wanted), (dtype, op)


@pytest.mark.nccl2_only("gloo's MIN and MAX lose NaN")
@pytest.mark.parametrize("world", [2, 3])
def test_nan_is_handed_on(ranks: Ranks, world: int) -> None:
    ranks.run(check_nan, world=world)


def lose_a_rank_in_backward(rank: int, world: int) -> None:
    """The error comes through autograd, in the class that a script catches."""
    model = DistributedDataParallel(_model(), bucket_cap_mb=0.001)

    def train_for_ever() -> None:
        while True:
            _train(model, rank, 1)

    _train(model, rank, world)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    caught = needed(train_for_ever)
    assert (caught.kind, caught.ranks) == ("PeerFailure", (1,)), caught


@pytest.mark.nccl2_only("an error of gloo has no class of its own")
def test_a_death_in_the_backward_pass_is_a_peer_failure(ranks: Ranks) -> None:
    with ranks.start(lose_a_rank_in_backward, world=3, fresh=True) as run:
        run.finish(died={1})
