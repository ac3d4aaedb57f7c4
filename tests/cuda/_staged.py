"""An operation of the matrix whose tensors are made before it is captured, so that a replay can be given new inputs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from tests.multirank._ops import OPERATIONS, Result, Site


@dataclass
class Staged(Site):
    """The first pass makes the tensors, every later one gets the same tensors again, in the same order."""

    inputs_made: list[tuple[torch.Tensor, int]] = field(default_factory=list)  # and where they start
    outputs_made: list[torch.Tensor] = field(default_factory=list)
    _next_input: int = 0
    _next_output: int = 0

    def mine(self, count: int, start: int = 0) -> torch.Tensor:
        if self._next_input == len(self.inputs_made):
            self.inputs_made.append((super().mine(count, start), start))
        self._next_input += 1
        return self.inputs_made[self._next_input - 1][0]

    def empty(self, count: int) -> torch.Tensor:
        if self._next_output == len(self.outputs_made):
            self.outputs_made.append(super().empty(count))
        self._next_output += 1
        return self.outputs_made[self._next_output - 1]

    def begin_pass(self) -> None:
        self._next_input = self._next_output = 0

    def refill(self, seed: int) -> None:
        """New inputs; outputs that hold nothing of the last run."""
        source = Site(replace(self.case, seed=seed), self.rank, self.world, self.group)
        for tensor, start in self.inputs_made:
            tensor.copy_(source.mine(tensor.numel(), start))
        for tensor in self.outputs_made:
            tensor.copy_(source.empty(tensor.numel()))

    def run(self) -> list[Result]:
        self.begin_pass()
        results = OPERATIONS[self.case.op](self)
        self.wait()
        return results


def expected_results(site: Site, seed: int) -> list[Result]:
    """What the operation gives with other inputs: run without a graph."""
    other = Site(replace(site.case, seed=seed), site.rank, site.world, site.group, device=site.device)
    results = OPERATIONS[site.case.op](other)
    other.wait()
    return results


def wrong(actual: list[Result], expected: list[Result]) -> list[str]:
    """What `actual` tensors hold, against what another run should have given."""
    pairs = zip(actual, expected, strict=True)
    errors = [replace(got, expected=wanted.expected).error() for got, wanted in pairs]
    return [error for error in errors if error]
