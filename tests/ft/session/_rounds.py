"""Members that train in rounds, and the same training in one process."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
from torch import nn

from pycomms import ft
from pycomms.ft._random import StepSeeds
from pycomms.ft.core.messages import MemberId

from ._job import PipeLink
from ._training import SAMPLES, await_change, dataset, network, session_of

BATCH = 4
EVERY = 3


@dataclass(frozen=True, kw_only=True)
class Plan:
    """deaths: (member's nonce, round, moment); holds: rounds behind which all wait until somebody has been let in."""

    outer: str = "diloco"
    until: int = 6
    deaths: tuple[tuple[str, int, str], ...] = ()
    holds: tuple[int, ...] = ()


def outer_of(plan: Plan) -> ft.LocalSGD:
    return ft.DiLoCo(EVERY, lr=0.5) if plan.outer == "diloco" else ft.LocalSGD(EVERY)


def train(link: PipeLink, member: MemberId, slot: int, say: Callable[[str, Any], None], plan: Plan) -> None:
    """Says ("step", (number, world, losses, samples)) of committed rounds, and ("weights", …) at the end."""
    torch.set_num_threads(1)
    deaths = {(step, moment) for nonce, step, moment in plan.deaths if nonce == member.nonce}

    def die(step: int, moment: str) -> None:
        if (step, moment) in deaths:
            os.kill(os.getpid(), signal.SIGKILL)

    model = network(True)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
    options = {"scheduler": scheduler, "sampler": ft.ElasticSampler(SAMPLES, BATCH, seed=5), "outer": outer_of(plan)}
    session = session_of(link, member, slot, timedelta(seconds=10), model, optimizer, **options)
    inputs, wanted = dataset()
    for step in session.steps(until=plan.until):
        losses, used = [], []
        with step:
            for indices in step.batches:
                loss = nn.functional.mse_loss(model(inputs[indices]), wanted[indices])
                loss.backward()
                step.inner_step()
                losses.append(loss.item())
                used += indices.tolist()
                die(step.number, "inner")
            step.reduce_gradients()
            die(step.number, "before_vote")
            step.optimizer_step()
            die(step.number, "after_vote")
        if step.committed:
            say("step", (step.number, step.world, losses, used))
        if step.number in plan.holds and step.committed:
            say("holding", step.number)
            await_change(session)
    say("weights", [parameter.detach().numpy().tobytes() for parameter in model.parameters()])


@dataclass
class _Member:
    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.StepLR

    @staticmethod
    def new() -> _Member:
        model = network(True)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        return _Member(model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5))

    def restore(self, other: _Member) -> None:
        for mine, its in zip(vars(self).values(), vars(other).values(), strict=True):
            mine.load_state_dict(copy.deepcopy(its.state_dict()))


def follow(plan: Plan, slots_of: Mapping[int, Sequence[int]]) -> tuple[list[dict[int, list[float]]], list[bytes]]:
    """Losses by round and slot, and the weights at the end."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the members do: sums in other orders have other bits
    try:
        return _follow(plan, slots_of)
    finally:
        torch.set_num_threads(threads)


def _follow(plan: Plan, slots_of: Mapping[int, Sequence[int]]) -> tuple[list[dict[int, list[float]]], list[bytes]]:
    main = [parameter.detach().clone() for parameter in network(True).parameters()]
    outer = torch.optim.SGD(main, lr=0.5, momentum=0.9, nesterov=True)
    members: dict[int, _Member] = {}
    sampler = ft.ElasticSampler(SAMPLES, BATCH, seed=5)
    inputs, wanted = dataset()
    seeds = StepSeeds(0)
    losses: list[dict[int, list[float]]] = []
    for step in range(1, plan.until + 1):
        slots = slots_of[step]
        for slot in set(members) - set(slots):
            del members[slot]
        source = next((members[slot] for slot in slots if slot in members), None)
        micro = len(slots) * EVERY
        losses.append({})
        for slot in slots:  # before any of them moves on
            if slot not in members:
                members[slot] = _Member.new()
                if source is not None:
                    members[slot].restore(source)
        for rank, slot in enumerate(slots):
            one = members[slot]
            seeds.begin(step, slot)
            losses[-1][slot] = []
            for indices in sampler.batches(sampler.share(rank, len(slots), micro)):
                loss = nn.functional.mse_loss(one.model(inputs[indices]), wanted[indices])
                one.optimizer.zero_grad()
                loss.backward()
                one.optimizer.step()
                one.scheduler.step()
                losses[-1][slot].append(loss.item())
        with torch.no_grad():
            for index, anchor in enumerate(main):
                held = [list(members[slot].model.parameters())[index].detach() for slot in slots]
                told = [anchor - one for one in held] if plan.outer == "diloco" else held
                total = sum(told[1:], told[0].clone())
                anchor.grad = total / len(slots) if len(slots) > 1 else total
                if plan.outer != "diloco":
                    anchor.copy_(anchor.grad)
            if plan.outer == "diloco":
                outer.step()
            for slot in slots:
                for parameter, anchor in zip(members[slot].model.parameters(), main, strict=True):
                    parameter.copy_(anchor)
        sampler.commit(step, len(slots), micro)
    return losses, [one.numpy().tobytes() for one in main]
