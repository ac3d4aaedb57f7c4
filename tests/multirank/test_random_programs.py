"""Random operations in random order with random sizes, synchronous and asynchronous mixed, over several groups at once.
Every rank checks every result. The seed is shown; `--seed N` runs one again, `--long` runs 10,000 operations.
"""

from __future__ import annotations

import random

import pytest
import torch.distributed as dist

from ._harness import Ranks, context
from ._ops import OPERATIONS, Result, Site
from ._program import Step, draw, groups_of
from ._support import supported
from ._tally import CHECKED, Tally

_IN_FLIGHT = 16
_DEFAULT_SEED = 20_240_917


class Player:
    """Runs the steps of a program on one rank, keeping some operations in flight."""

    def __init__(self, rank: int, seed: int, groups: list[tuple[list[int], dist.ProcessGroup | None]]) -> None:
        self._rank = rank
        self._groups = groups
        self._dice = random.Random(seed * 1000 + rank)  # each rank waits in an order of its own
        self._in_flight: list[tuple[int, Site, list[Result]]] = []
        self.checked: dict[str, int] = {}

    def play(self, number: int, step: Step) -> None:
        members, group = self._groups[step.group]
        if self._rank not in members:
            return
        site = Site(step.case, members.index(self._rank), len(members), group, context().backend == "nccl2")
        try:
            results = OPERATIONS[step.case.op](site)
        except Exception as error:
            raise RuntimeError(f"step {number}, group {members}: {step.case}") from error
        self._in_flight.append((number, site, results))
        if not step.case.is_async:
            self._end(len(self._in_flight) - 1)
        elif step.drain or len(self._in_flight) > _IN_FLIGHT:
            self.drain()

    def drain(self) -> None:
        while self._in_flight:
            self._end(self._dice.randrange(len(self._in_flight)))

    def _end(self, index: int) -> None:
        number, site, results = self._in_flight.pop(index)
        site.wait()
        for result in results:
            wrong = result.error()
            if wrong:
                raise AssertionError(f"step {number}: {site.case}: {wrong}")
        self.checked[site.case.op] = self.checked.get(site.case.op, 0) + 1


def _new_group(members: list[int]) -> dist.ProcessGroup | None:
    group = dist.new_group(members)
    return group if isinstance(group, dist.ProcessGroup) else None


def check_program(rank: int, world: int, seed: int, length: int) -> Tally:
    groups = [(members, _new_group(members)) for members in groups_of(world)]
    player = Player(rank, seed, groups)
    for number, step in enumerate(draw(seed, world, length)):
        if supported(context().backend, step.case):
            player.play(number, step)
    player.drain()
    dist.barrier()
    return Tally(player.checked, [], [])


@pytest.mark.parametrize("world, length", [(2, 500), (3, 500), (4, 1000)])
def test_random_program(ranks: Ranks, world: int, length: int, request: pytest.FixtureRequest) -> None:
    seed = request.config.getoption("--seed") or _DEFAULT_SEED
    if request.config.getoption("--long"):
        length = 10_000
    print(f"--seed {seed}: {length} operations on {world} ranks")
    tallies: list[Tally] = ranks.run(check_program, seed, length, world=world, timeout=110.0)
    request.config.stash[CHECKED].update(tallies[0].checked)
