"""Members that train a model sharded by FSDP2, and the same training in one process."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from pycomms import ft
from pycomms.ft import checkpoints as module_of_checkpoints
from pycomms.ft._checkpoint_parts import put_together
from pycomms.ft._random import StepSeeds
from pycomms.ft.core.messages import MemberId

from ._job import PipeLink
from ._training import SAMPLES, await_change, dataset, network, session_of

SHARDS = 2
BATCH = 4

Followed = tuple[list[dict[int, list[float]]], list[list[bytes]]]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A training, and which members die by their own hand in it.

    Attributes:
        deaths: (member's nonce, step, moment).
        holds: steps behind which those wait for others who are not all.
        folder: for checkpoints, every three steps.
        dies_saving: (step, nonces, where): when they write a part ("part"), or one puts the parts together ("joining").
    """

    slots: int = 4
    until: int = 10
    optimizer: str = "adam"
    deaths: tuple[tuple[str, int, str], ...] = ()
    holds: tuple[int, ...] = ()
    min_ranks: int = 1
    micro_batches: int | None = None
    dropout: bool = True
    folder: str | None = None
    dies_saving: tuple[int, tuple[str, ...], str] | None = None


def train(link: PipeLink, member: MemberId, slot: int, say: Callable[[str, Any], None], plan: Plan) -> None:
    """Says ("step", (number, world, losses, samples)) of committed steps, and ("weights", own parts) at the end."""
    torch.set_num_threads(1)
    if plan.dies_saving is not None and member.nonce in plan.dies_saving[1]:
        _die_saving(plan.dies_saving[0], plan.dies_saving[2])
    deaths = {(step, moment) for nonce, step, moment in plan.deaths if nonce == member.nonce}

    def die(step: int, moment: str) -> None:
        if (step, moment) in deaths:
            os.kill(os.getpid(), signal.SIGKILL)

    replica = ft.Replica(SHARDS, slot=slot)
    model = network(plan.dropout)
    shard(model, replica)
    optimizer = _optimizer(plan, model)
    sampler = ft.ElasticSampler(SAMPLES, BATCH, seed=5)
    checkpoints = ft.Checkpoints(plan.folder, every=3) if plan.folder else None
    options = {
        "sampler": sampler,
        "replica": replica,
        "min_ranks": plan.min_ranks,
        "checkpoints": checkpoints,
        "world": "constant" if plan.micro_batches else "dynamic",
        "micro_batches": plan.micro_batches,
    }
    session = session_of(link, member, slot, timedelta(seconds=10), model, optimizer, **options)
    inputs, wanted = dataset()
    try:
        for step in session.steps(until=plan.until):
            losses, used = [], []
            with step:
                for indices in step.batches:
                    die(step.number, "forward")
                    found = model(inputs[indices])
                    found.register_hook(lambda _, number=step.number: die(number, "in_backward"))
                    loss = nn.functional.mse_loss(found, wanted[indices])
                    loss.backward()
                    losses.append(loss.item())
                    used += indices.tolist()
                die(step.number, "backward")
                step.reduce_gradients()
                die(step.number, "before_vote")
                step.optimizer_step()
                die(step.number, "after_vote")
            if checkpoints is not None:
                checkpoints.wait(timedelta(seconds=30))  # these steps take less time than a file
            if step.committed:
                say("step", (step.number, step.world, losses, used))
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
    sampler.check()


def _die_saving(step: int, where: str) -> None:
    """Whoever writes a part of that step's checkpoint dies when only its index is missing; or that of the whole."""
    finish = FileSystemWriter.finish

    def finishing(writer: FileSystemWriter, *args: Any, **named: Any) -> None:
        if f"writing-{step}-" in str(writer.checkpoint_id):
            os.kill(os.getpid(), signal.SIGKILL)
        finish(writer, *args, **named)

    def joining(whole: Path, parts: int) -> None:
        if f"writing-{step}-" in str(whole):
            os.kill(os.getpid(), signal.SIGKILL)
        put_together(whole, parts)

    if where == "part":
        mock.patch.object(FileSystemWriter, "finish", finishing).start()
    else:
        mock.patch.object(module_of_checkpoints, "put_together", joining).start()


def shard(model: nn.Module, replica: ft.Replica) -> None:
    for layer in model.children():
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=replica.mesh)
    fully_shard(model, mesh=replica.mesh)


def follow(plan: Plan, slots_of: Mapping[int, Sequence[int]]) -> Followed:
    """Losses by step and slot, and the weights at the end, by shard."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the members do: sums in other orders have other bits
    try:
        return _follow(plan, slots_of)
    finally:
        torch.set_num_threads(threads)


def _follow(plan: Plan, slots_of: Mapping[int, Sequence[int]]) -> Followed:
    main = network(plan.dropout)
    models: dict[int, nn.Module] = {}
    optimizer = _optimizer(plan, main)
    sampler = ft.ElasticSampler(SAMPLES, BATCH, seed=5)
    inputs, wanted = dataset()
    seeds = StepSeeds(0)
    losses: list[dict[int, list[float]]] = []
    for step in range(1, plan.until + 1):
        slots = slots_of[step]
        micro = plan.micro_batches or len(slots)
        losses.append({})
        of_slots: list[list[list[Tensor]]] = []  # by rank and micro-batch
        for rank, slot in enumerate(slots):
            model = models.setdefault(slot, copy.deepcopy(main))
            with torch.no_grad():
                for own, shared in zip(model.parameters(), main.parameters(), strict=True):
                    own.copy_(shared)
            seeds.begin(step, slot)
            losses[-1][slot] = []
            of_slots.append([])
            for indices in sampler.batches(sampler.share(rank, len(slots), micro)):
                model.zero_grad()
                loss = nn.functional.mse_loss(model(inputs[indices]), wanted[indices])
                loss.backward()
                losses[-1][slot].append(loss.item())
                of_slots[-1].append([_gradient(one) for one in model.parameters()])
        replicas = [of_slots[first : first + SHARDS] for first in range(0, len(slots), SHARDS)]
        sums = [_sum([_mean(together) for together in zip(*one, strict=True)]) for one in replicas]
        for parameter, total in zip(main.parameters(), _sum(sums), strict=True):
            parameter.grad = total / (micro // SHARDS)
        optimizer.step()
        sampler.commit(step, len(slots), micro)
    return losses, [
        [parameter.detach().chunk(SHARDS)[shard].numpy().tobytes() for parameter in main.parameters()]
        for shard in range(SHARDS)
    ]


def _mean(of_members: Sequence[list[Tensor]]) -> list[Tensor]:
    return [one / SHARDS for one in _sum(of_members)]


def _sum(rows: Sequence[list[Tensor]]) -> list[Tensor]:
    return [sum(parts[1:], parts[0]) for parts in zip(*rows, strict=True)]


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
