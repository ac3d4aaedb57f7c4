"""Random faults around regroups: who dies, when, in which operation or at which point of a regroup; who comes and who
is left out; in which order. Every survivor ends with right results in a usable group. The seed and the trace are shown
on failure.

50 schedules here; `--long` plays 1,000, and `--seed N` one again.
"""

from __future__ import annotations

import pytest

from ._harness import Ranks
from ._schedules import draw, play

pytestmark = pytest.mark.nccl2_only("gloo has no promise to hold when members die")

_FIRST_SEED = 20_260_000
_BLOCK = 10


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seeds" not in metafunc.fixturenames:
        return
    seed = metafunc.config.getoption("--seed")
    if seed is not None:
        metafunc.parametrize("seeds", [range(seed, seed + 1)], ids=str)
        return
    count = 1000 if metafunc.config.getoption("--long") else 50
    blocks = [range(_FIRST_SEED + n, _FIRST_SEED + n + _BLOCK) for n in range(0, count, _BLOCK)]
    metafunc.parametrize("seeds", blocks, ids=lambda block: f"{block[0]}-{block[-1]}")


@pytest.mark.needs_torch("2.14", "groups that change their size")
@pytest.mark.timeout(600)
def test_every_survivor_ends_in_a_usable_group(ranks: Ranks, seeds: range) -> None:
    for seed in seeds:
        play(ranks, draw(seed))


def test_the_same_seed_draws_the_same_schedule() -> None:
    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(100)}) == 100
