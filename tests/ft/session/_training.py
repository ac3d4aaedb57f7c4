"""What the members of the tests' jobs run."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import pycomms
from pycomms import ft
from pycomms.ft import _restore
from pycomms.ft._membership import Identity
from pycomms.ft._membership import Membership as Elastic
from pycomms.ft._start import group_of_one
from pycomms.ft.core.messages import MemberId
from pycomms.ft.core.step import Stage
from pycomms.process_group._tables import backend_of

from ._job import PipeLink

SAMPLES = 96


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A training, and which members die by their own hand in it.

    Attributes:
        deaths: (member's nonce, step, moment): "forward", "backward", "before_vote", "after_vote".
        holds: steps behind which all wait until the test has let somebody in.
        folder: for checkpoints, every three steps.
    """

    until: int = 12
    batch_size: int = 4
    ddp: bool = False
    dropout: bool = True
    optimizer: str = "adam"
    world: Any = "dynamic"
    micro_batches: int | None = None
    deadline: timedelta = timedelta(seconds=10)
    deaths: tuple[tuple[str, int, str], ...] = ()
    holds: tuple[int, ...] = ()
    folder: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def network(has_dropout: bool) -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Dropout(0.2 if has_dropout else 0.0), nn.Linear(32, 4)
    )


def dataset() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(3)
    inputs = torch.randn(SAMPLES, 8, generator=draw)
    return inputs, inputs @ torch.randn(8, 4, generator=draw)


def session_of(
    link: PipeLink, member: MemberId, slot: int, timeouts_: timedelta, *args: Any, **options: Any
) -> ft.Session:
    def membership(timeouts: ft.Timeouts, min_ranks: int) -> Elastic:
        identity = Identity(member=member, slot=slot, pid=os.getpid())
        return Elastic(link, identity, timeouts, min_ranks, group_of_one(timeouts))

    return ft.Session(*args, membership=membership, recovery_deadline=timeouts_, **options)


def lose_answer_of_vote(session: ft.Session, doubtful: int) -> None:
    """This member's vote of a step fails behind the point where the others' has succeeded."""
    vote = session._course.vote

    def failing(number: int) -> bool:
        is_changing = vote(number)
        if number == doubtful and session._course.now.stage is Stage.VOTED:
            backend_of(session.group, "test").abort()
            losing.stop()
            raise pycomms.CommunicatorClosed("the answer was lost")
        return is_changing

    losing = mock.patch.object(session._course, "vote", failing)
    losing.start()


def await_change(session: ft.Session) -> None:
    """Until the coordinator wants something: the test lets somebody in."""
    deadline = time.monotonic() + 60
    while session._membership.change is None:
        if time.monotonic() > deadline:
            raise TimeoutError("nobody has come")
        os.sched_yield()


def die_restoring(part: str) -> None:
    """This process dies in the middle of serving a state ("_stage") or of fetching one ("_fetch")."""

    def dying(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(_restore, part, dying)


def train(link: PipeLink, member: MemberId, slot: int, say: Callable[[str, Any], None], plan: Plan) -> None:
    """Says ("step", (number, world, losses, samples)) of committed steps, and ("weights", …) at the end."""
    torch.set_num_threads(1)
    model: nn.Module = network(plan.dropout)
    if plan.ddp:
        model = ft.DistributedDataParallel(model)
    kind = torch.optim.Adam if plan.optimizer == "adam" else torch.optim.SGD
    optimizer = kind(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
    sampler = ft.ElasticSampler(SAMPLES, plan.batch_size, seed=5)
    inputs, wanted = dataset()
    checkpoints = ft.Checkpoints(plan.folder, every=3) if plan.folder else None
    deaths = {(step, moment) for nonce, step, moment in plan.deaths if nonce == member.nonce}

    def die(step: int, moment: str) -> None:
        if (step, moment) in deaths:
            os.kill(os.getpid(), signal.SIGKILL)

    session = session_of(
        link,
        member,
        slot,
        plan.deadline,
        model,
        optimizer,
        scheduler=scheduler,
        sampler=sampler,
        world=plan.world,
        micro_batches=plan.micro_batches,
        checkpoints=checkpoints,
    )
    for nonce, part in plan.extra.get("die_restoring", ()):
        if nonce == member.nonce:
            die_restoring(part)
    doubt = plan.extra.get("doubt")
    if doubt is not None and doubt[0] == member.nonce:
        lose_answer_of_vote(session, doubt[1])
    for step in session.steps(until=plan.until):
        used, losses = [], []
        with step:
            for indices in step.batches:
                die(step.number, "forward")
                used += indices.tolist()
                loss = nn.functional.mse_loss(model(inputs[indices]), wanted[indices])
                losses.append(loss.item())
                loss.backward()
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
        if step.number in plan.holds and step.committed:
            say("holding", step.number)
            await_change(session)
    sampler.check()
    say("weights", [parameter.detach().numpy().tobytes() for parameter in model.parameters()])
    say("ledger", [tuple(one) for one in sampler.ledger])
    say("recoveries", session.recoveries)
