"""The same training in one process, following a given schedule of members: what a job must come to, bit for bit."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from pycomms import ft
from pycomms.ft._random import StepSeeds

from ._training import SAMPLES, Plan, dataset, network


def follow(plan: Plan, slots_of: Mapping[int, Sequence[int]]) -> tuple[list[list[list[float]]], list[bytes]]:
    """Losses by step, rank and micro-batch, and the weights at the end.

    Args:
        slots_of: for each step the slots that took part in it, by rank.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the members do: sums in other orders have other bits
    try:
        return _follow(plan, slots_of)
    finally:
        torch.set_num_threads(threads)


def _follow(plan: Plan, slots_of: Mapping[int, Sequence[int]]) -> tuple[list[list[list[float]]], list[bytes]]:
    models: dict[int, nn.Module] = {}
    main = network(plan.dropout)
    kind = torch.optim.Adam if plan.optimizer == "adam" else torch.optim.SGD
    optimizer = kind(main.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
    sampler = ft.ElasticSampler(SAMPLES, plan.batch_size, seed=5)
    inputs, wanted = dataset()
    seeds = StepSeeds(0)
    losses: list[list[list[float]]] = []
    for step in range(1, plan.until + 1):
        slots = slots_of[step]
        micro = plan.micro_batches or len(slots)
        sums: list[torch.Tensor] | None = None
        losses.append([])
        for rank, slot in enumerate(slots):
            model = models.setdefault(slot, copy.deepcopy(main))
            with torch.no_grad():
                for own, shared in zip(model.parameters(), main.parameters(), strict=True):
                    own.copy_(shared)
                    own.grad = None
            seeds.begin(step, slot)
            losses[-1].append([])
            for indices in sampler.batches(sampler.share(rank, len(slots), micro)):
                loss = nn.functional.mse_loss(model(inputs[indices]), wanted[indices])
                loss.backward()
                losses[-1][-1].append(loss.item())
            grads = [torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in model.parameters()]
            sums = grads if sums is None else [one + other for one, other in zip(sums, grads, strict=True)]
        assert sums is not None
        for parameter, total in zip(main.parameters(), sums, strict=True):
            parameter.grad = total / micro if micro > 1 else total
        optimizer.step()
        scheduler.step()
        sampler.commit(step, len(slots), micro)
    return losses, [parameter.detach().numpy().tobytes() for parameter in main.parameters()]
