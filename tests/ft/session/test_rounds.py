"""LocalSGD and DiLoCo: members train alone, die, and come; the numbers are those of one process, bit for bit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pycomms import ft

from ._job import Job, steps_of
from ._rounds import Plan, follow, train


def check(job: Job, plan: Plan, survivors: int, died_behind: dict[int, list[int]] | None = None) -> None:
    by_step = steps_of(job)
    assert sorted(by_step) == list(range(1, plan.until + 1))
    slots_of = {step: sorted(of_slot) for step, of_slot in by_step.items()}
    slots_of.update(died_behind or {})
    losses, weights = follow(plan, slots_of)
    for step, of_slot in by_step.items():
        assert {world for world, _, _ in of_slot.values()} == {len(slots_of[step])}
        for slot, (_, own, _) in of_slot.items():
            assert own == losses[step - 1][slot], f"round {step}, slot {slot}"
    told = job.heard("weights")
    assert len(told) == survivors
    assert all(one == weights for one in told)


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.parametrize("outer", ["local", "diloco"])
def test_nobody_dies(outer: str) -> None:
    plan = Plan(outer=outer, until=4)
    with Job(train, plan, slots=3) as job:
        job.run()
    check(job, plan, survivors=3)


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.parametrize("outer", ["local", "diloco"])
@pytest.mark.parametrize("moment", ["inner", "before_vote", "after_vote"])
def test_one_dies_and_another_comes(moment: str, outer: str) -> None:
    plan = Plan(outer=outer, until=7, deaths=(("m2", 2, moment),), holds=(4,))
    with Job(train, plan, slots=3) as job:
        job.run_until(job.has_heard("holding", 2))
        job.start(1)
        job.run()
    check(job, plan, survivors=3, died_behind={2: [0, 1, 2]} if moment == "after_vote" else None)
    by_step = steps_of(job)
    assert sorted(by_step[3]) == [0, 2]
    assert sorted(by_step[7]) == [0, 1, 2]


def test_what_does_not_go_with_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="every is 0"):
        ft.LocalSGD(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="DiLoCo needs a plain model and an optimizer"):
        ft.Session(model, optimizer, world="constant", micro_batches=4, outer=ft.DiLoCo(2))
