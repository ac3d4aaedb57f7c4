"""The standard job: sums of integers that say who is in them. A session where there is one, otherwise a plain loop.

pycomms chaos run kill.toml -- pycomms run --nproc-per-node 4 -m pycomms.chaos.workload
pycomms chaos run kill.toml -- torchrun --nproc-per-node 4 -m pycomms.chaos.workload --backend gloo
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from pycomms import chaos
from pycomms._config import launch, membership
from pycomms.chaos.core import payload
from pycomms.ft.sampler import ElasticSampler

_SAMPLES = 1 << 40
"""More than any run uses, so that a sample is its place in the sequence."""


class Tally:
    """The state of the job, and its optimizer: a step folds the sum in. Of all members the same."""

    def __init__(self, elements: int, dtype: torch.dtype) -> None:
        self.digest = 0
        self.steps = 0
        self._tail = torch.arange(1, elements, dtype=dtype)
        self._dtype = dtype
        self._sum = torch.zeros(0, dtype=dtype)
        self._samples: list[int] = []

    def contribution(self, step: int, slot: int) -> torch.Tensor:
        head = torch.tensor([4**slot], dtype=self._dtype)
        return torch.cat([head, self._tail + payload.slope(slot, step)])

    def hold(self, sum_: torch.Tensor, samples: list[int]) -> None:
        self._sum, self._samples = sum_, samples

    def step(self) -> None:
        """The step is committed."""
        self.steps += 1
        told = self._look()
        self.digest = payload.fold(self.digest, told["total"] or 0)
        chaos.record("values", step=self.steps, digest=self.digest, samples=self._samples, **told)

    def _look(self) -> dict[str, Any]:
        """What is seen of the sum, and how many of its elements are wrong, given who is in it."""
        found, elements = self._sum, self._sum.numel()
        is_finite = not self._dtype.is_floating_point or bool(torch.isfinite(found).all())
        if not is_finite:
            return {"head": None, "total": None, "elements": elements, "wrong": int((~torch.isfinite(found)).sum())}
        head = int(found[0])
        members = payload.members_of(head)
        wrong = elements
        if members is not None:
            slopes = sum(payload.slope(slot, self.steps) for slot in members)
            expected = self._tail * len(members) + slopes
            wrong = int((found[1:] != expected).sum())
        return {"head": head, "total": sum(map(_exact, found.tolist())), "elements": elements, "wrong": wrong}

    def zero_grad(self, set_to_none: bool = True) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {"digest": self.digest, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.digest, self.steps = int(state["digest"]), int(state["steps"])


def _exact(number: float) -> int:
    """An integer is itself; any other number is one that no sum of ours has."""
    return int(number) if number == int(number) else int(number * (1 << 60))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m pycomms.chaos.workload", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, help="default: what the plan says, or 60")
    parser.add_argument("--elements", type=int, default=4096, help="of the tensor that is summed")
    parser.add_argument("--pause", type=float, default=0.005, help="seconds of each step that stand for computing")
    parser.add_argument(
        "--patience",
        type=float,
        default=0.25,
        help="seconds of each step, if more, while a session misses members: so that they are back before the end",
    )
    parser.add_argument("--dtype", choices=("int64", "float64"), default="float64")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the tensor is")
    parser.add_argument("--backend", default="gloo", help="of the plain loop")
    parser.add_argument("--timeout", type=float, default=20.0, help="seconds: of a group of the plain loop")
    parser.add_argument("--min-ranks", type=int, default=1, help="of the session")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.steps = arguments.steps or chaos.steps(60)
    told = membership()
    tally = Tally(arguments.elements, getattr(torch, arguments.dtype))
    if told.agent or told.coordinator:
        _elastic(arguments, tally)
    else:
        _plain(arguments, tally)
    chaos.record("finished", step=tally.steps, digest=tally.digest)
    gc.freeze()  # otherwise Python's end looks through all of torch's objects, for a second
    return 0


def _elastic(arguments: argparse.Namespace, tally: Tally) -> None:
    from pycomms import ft

    sampler = ElasticSampler(_SAMPLES, 4, shuffle=False)
    optimizer: Any = tally
    session = ft.Session(optimizer=optimizer, sampler=sampler, min_ranks=arguments.min_ranks)
    full = launch().world_size
    for step in session.steps(until=arguments.steps):
        with step:
            samples = next(step.batches).tolist()
            misses_some = step.world < full and step.attempt == 0
            time.sleep(max(arguments.pause, arguments.patience if misses_some else 0.0))
            sum_ = tally.contribution(step.number, session.slot).to(arguments.device)
            dist.all_reduce(sum_, group=session.group)
            tally.hold(sum_.cpu(), samples)
            step.commit()
    sampler.check()


def _plain(arguments: argparse.Namespace, tally: Tally) -> None:
    dist.init_process_group(arguments.backend, timeout=timedelta(seconds=arguments.timeout))
    rank, world = dist.get_rank(), dist.get_world_size()
    for number in range(1, arguments.steps + 1):
        chaos.step(number)
        first = 4 * (world * (number - 1) + rank)
        time.sleep(arguments.pause)
        sum_ = tally.contribution(number, rank).to(arguments.device)
        dist.all_reduce(sum_)
        tally.hold(sum_.cpu(), list(range(first, first + 4)))
        tally.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    if launch().rank < 0:
        sys.exit("pycomms.chaos.workload: no RANK in the environment; start it with pycomms run or torchrun")
    sys.exit(main())
