"""Members that sum by themselves, and keep a total that is part of the training's state."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from pycomms import ft
from pycomms.ft.core.messages import MemberId

from ._job import PipeLink
from ._training import await_change, lose_answer_of_vote, session_of


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Attributes:
    until: steps.
    dies: a member's name and the step in which it dies.
    doubts: a slot and the step whose vote it does not hear the end of.
    holds: behind this step all wait until the test has let somebody in.
    folder: for checkpoints, of every second step.
    """

    until: int
    dies: tuple[str, int] | None = None
    doubts: tuple[int, int] | None = None
    holds: int = 0
    folder: Path | None = None


class Total:
    """Of all steps that were committed, and how many there were."""

    def __init__(self) -> None:
        self.value = torch.zeros(1, dtype=torch.int64)
        self.last = 0

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value, "last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value.copy_(state["value"])
        self.last = state["last"]


def count(link: PipeLink, member: MemberId, slot: int, say: Callable[[str, Any], None], plan: Plan) -> None:
    """Says ("total", (value, last)) at the end."""
    total = Total()
    summed = torch.zeros(1, dtype=torch.int64)

    def taken(number: int) -> None:
        total.value += summed
        total.last = number

    session = session_of(
        link,
        member,
        slot,
        timedelta(seconds=10),
        state={"total": total},
        on_commit=taken,
        checkpoints=ft.Checkpoints(plan.folder, every=2) if plan.folder else None,
    )
    if plan.doubts is not None and plan.doubts[0] == slot:
        lose_answer_of_vote(session, plan.doubts[1])
    for step in session.steps(until=plan.until):
        with step:
            if plan.dies == (member.nonce, step.number):
                os.kill(os.getpid(), signal.SIGKILL)
            summed.fill_(step.number if step.rank == 0 else 0)
            session.group.allreduce([summed]).wait()
            step.commit()
        if plan.holds == step.number and step.committed:
            say("holding", slot)
            await_change(session)
    say("total", (int(total.value), total.last))
