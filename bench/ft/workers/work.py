"""What the trainings of all contestants do alike: the model, what a step computes, and the log of what has happened.

Knows nothing of pycomms: the peers' interpreters have only torch.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class Log:
    """One line for each event of each worker: time in ns, slot, process, what, values. Appended as a whole."""

    def __init__(self, path: Path, slot: int) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._slot = slot

    def say(self, what: str, *values: object, at: int = 0) -> None:
        words = " ".join(map(str, (at or time.monotonic_ns(), self._slot, os.getpid(), what, *values)))
        os.write(self._file, f"{words}\n".encode())

    def step(self, number: int, is_committed: bool, world: int) -> None:
        self.say("step", number, int(is_committed), world)


class Training:
    """A model of one matrix, whose step takes as long as it is told."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        width = max(8, int((arguments.megabytes * 1e6 / 4) ** 0.5))
        self.model: nn.Module = nn.Linear(width, width, bias=False)
        self.optimizer: Any = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self._inputs = torch.randn(1, width)
        self._seconds = arguments.step_ms / 1e3
        self._burns = arguments.compute == "burn"

    def loss(self) -> Tensor:
        until = time.perf_counter() + self._seconds
        if self._burns:
            while time.perf_counter() < until:  # as a real step burns its core
                pass
        else:
            time.sleep(self._seconds)  # as a step waits for its accelerator
        result: Tensor = self.model(self._inputs)
        return result.sum()

    @property
    def parameter(self) -> nn.Parameter:
        return next(self.model.parameters())

    def state(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser()
    found.add_argument("log", type=Path)
    found.add_argument("--step-ms", type=float, required=True)
    found.add_argument("--megabytes", type=float, required=True, help="of parameters")
    found.add_argument("--compute", choices=("burn", "wait"), required=True)
    return found
