"""A worker without an agent: what its environment says is all that it knows.

python -m tests.ft.session._alone FOLDER PLAN
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pycomms import ft

from ._training import await_change


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Attributes:
    folder: each member writes a file there, of what its steps were.
    until: steps.
    together: so many begin at the same time, however long each takes to start.
    dies: the member in this slot kills itself in this step, unless torchrun has started it again; None: nobody does.
    hold: from this step on they wait behind each until `together` are in; 0: they do not.
    """

    folder: Path
    until: int
    together: int
    dies: tuple[int, int] | None = None
    hold: int = 0

    @classmethod
    def of(cls, folder: str, words: str) -> Plan:
        told: dict[str, Any] = json.loads(words)
        dies = told.pop("dies", None)
        return cls(folder=Path(folder), dies=tuple(dies) if dies else None, **told)


def train(plan: Plan) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    _wait_for_all(plan)
    session = ft.Session(model, optimizer)
    is_first = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    worlds: dict[int, int] = {}
    for step in session.steps(until=plan.until):
        with step:
            loss = model(torch.full((3, 4), float(session.slot + 1))).square().mean()
            loss.backward()
            if is_first and plan.dies == (session.slot, step.number):
                os.kill(os.getpid(), signal.SIGKILL)
            step.optimizer_step()
        if step.committed:
            worlds[step.number] = step.world
            if plan.hold and step.number >= plan.hold and session.world < plan.together:
                await_change(session)
    weights = [value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()]
    told: dict[str, Any] = {"slot": session.slot, "worlds": worlds, "weights": weights}
    (plan.folder / f"{os.getpid()}.json").write_text(json.dumps(told))


def _wait_for_all(plan: Plan) -> None:
    (plan.folder / f"{os.getpid()}.there").touch()
    deadline = time.monotonic() + 60
    while len(list(plan.folder.glob("*.there"))) < plan.together:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not all of {plan.together} have come")
        threading.Event().wait(0.01)


if __name__ == "__main__":
    train(Plan.of(*sys.argv[1:]))
