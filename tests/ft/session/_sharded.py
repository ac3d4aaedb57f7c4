"""Members that train a model sharded by FSDP2, and the same training in one process."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from pycomms import ft
from pycomms.ft._random import StepSeeds
from pycomms.ft.core.messages import MemberId

from ._job import PipeLink
from ._training import SAMPLES, await_change, dataset, network, session_of

SHARDS = 2
BATCH = 4


@dataclass(frozen=True, kw_only=True)
class Plan:
    """deaths: (member's nonce, step, moment); holds: steps behind which those wait for others who are not all."""

    slots: int = 4
    until: int = 10
    optimizer: str = "adam"
    deaths: tuple[tuple[str, int, str], ...] = ()
    holds: tuple[int, ...] = ()
    min_ranks: int = 1


def train(link: PipeLink, member: MemberId, slot: int, say: Callable[[str, Any], None], plan: Plan) -> None:
    """Says ("step", (number, world, losses, samples)) of committed steps, and ("weights", own parts) at the end."""
    torch.set_num_threads(1)
    deaths = {(step, moment) for nonce, step, moment in plan.deaths if nonce == member.nonce}

    def die(step: int, moment: str) -> None:
        if (step, moment) in deaths:
            os.kill(os.getpid(), signal.SIGKILL)

    replica = ft.Replica(SHARDS, slot=slot)
    model = network(True)
    shard(model, replica)
    optimizer = _optimizer(plan, model)
    sampler = ft.ElasticSampler(SAMPLES, BATCH, seed=5)
    options = {"sampler": sampler, "replica": replica, "min_ranks": plan.min_ranks}
    session = session_of(link, member, slot, timedelta(seconds=10), model, optimizer, **options)
    inputs, wanted = dataset()
    try:
        for step in session.steps(until=plan.until):
            with step:
                indices = next(step.batches)
                die(step.number, "forward")
                found = model(inputs[indices])
                found.register_hook(lambda _, number=step.number: die(number, "in_backward"))
                loss = nn.functional.mse_loss(found, wanted[indices])
                loss.backward()
                die(step.number, "backward")
                step.reduce_gradients()
                die(step.number, "before_vote")
                step.optimizer_step()
                die(step.number, "after_vote")
            if step.committed:
                say("step", (step.number, step.world, loss.item(), indices.tolist()))
            if step.reason:
                say("reason", (step.number, step.committed, step.reason))
            if step.number in plan.holds and step.committed and session.world < plan.slots:
                say("holding", step.number)
                await_change(session)
    except ft.SessionError as err:
        say("ended", err)
        return
    say("weights", [_held(one).numpy().tobytes() for one in model.parameters()])
    say("recoveries", session.recoveries)


def shard(model: nn.Module, replica: ft.Replica) -> None:
    for layer in model.children():
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=replica.mesh)
    fully_shard(model, mesh=replica.mesh)


def follow(plan: Plan, slots_of: Mapping[int, Sequence[int]]) -> tuple[list[dict[int, float]], list[list[bytes]]]:
    """Losses by step and slot, and the weights at the end, by shard."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the members do: sums in other orders have other bits
    try:
        return _follow(plan, slots_of)
    finally:
        torch.set_num_threads(threads)


def _follow(plan: Plan, slots_of: Mapping[int, Sequence[int]]) -> tuple[list[dict[int, float]], list[list[bytes]]]:
    main = network(True)
    models: dict[int, nn.Module] = {}
    optimizer = _optimizer(plan, main)
    sampler = ft.ElasticSampler(SAMPLES, BATCH, seed=5)
    inputs, wanted = dataset()
    seeds = StepSeeds(0)
    losses: list[dict[int, float]] = []
    for step in range(1, plan.until + 1):
        slots = slots_of[step]
        losses.append({})
        of_slots: list[list[Tensor]] = []
        for rank, slot in enumerate(slots):
            model = models.setdefault(slot, copy.deepcopy(main))
            with torch.no_grad():
                for own, shared in zip(model.parameters(), main.parameters(), strict=True):
                    own.copy_(shared)
                    own.grad = None
            seeds.begin(step, slot)
            (indices,) = sampler.batches(sampler.share(rank, len(slots), len(slots)))
            loss = nn.functional.mse_loss(model(inputs[indices]), wanted[indices])
            loss.backward()
            losses[-1][slot] = loss.item()
            of_slots.append([_gradient(one) for one in model.parameters()])
        replicas = [of_slots[first : first + SHARDS] for first in range(0, len(slots), SHARDS)]
        means = [[sum(parts) / SHARDS for parts in zip(*one, strict=True)] for one in replicas]
        for parameter, *parts in zip(main.parameters(), *means, strict=True):
            parameter.grad = sum(parts[1:], parts[0]) / len(parts)
        optimizer.step()
        sampler.commit(step, len(slots), len(slots))
    return losses, [
        [parameter.detach().chunk(SHARDS)[shard].numpy().tobytes() for parameter in main.parameters()]
        for shard in range(SHARDS)
    ]


def _gradient(parameter: nn.Parameter) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad.clone()


def _held(parameter: nn.Parameter) -> Tensor:
    assert isinstance(parameter, DTensor)
    return parameter.to_local().detach()


def _optimizer(plan: Plan, model: nn.Module) -> torch.optim.Optimizer:
    if plan.optimizer == "adam":
        return torch.optim.Adam(model.parameters(), lr=0.01)
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
