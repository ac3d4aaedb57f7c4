"""A rank that has left out a round of a loop comes to what is behind it too early: the verdict tells of the loop."""

from __future__ import annotations

import pytest

from pycomms.flight_recorder.analysis import Finding, Verdict, analyze

from .corpus import loop, world
from .simulator import Step, run

BODY = (
    Step(kind="all_reduce", reduction="sum", line=20),
    Step(kind="broadcast", root=0, line=21),
    Step(kind="all_reduce", reduction="max", line=22),
)
BEHIND = Step(kind="barrier", line=40)
ROUNDS = 9


def finding(body: tuple[Step, ...], others: int) -> Finding:
    """Rank 1 makes ROUNDS rounds, and then something else."""
    records = run(world(4), lambda rank: [*loop(ROUNDS if rank == 1 else others, *body), BEHIND]).records()
    (found,) = analyze(records).findings
    assert (found.verdict, found.root_ranks) == (Verdict.OP_MISMATCH, (1,))
    return found


@pytest.mark.parametrize("size, same", [(1, "operation"), (2, "2 operations"), (3, "3 operations")])
def test_the_loop_is_told(size: int, same: str) -> None:
    found = finding(BODY[:size], ROUNDS + 1)
    assert f"before it all issued the same {same} {ROUNDS} times over, and ranks 0, 2-3 go on with that" in found.what
    assert "or rank 1 left out a round of that loop" in found.next_step


def test_two_rounds_are_no_loop() -> None:
    records = run(world(4), lambda rank: [*loop(2 if rank == 1 else 3, *BODY), BEHIND]).records()
    (found,) = analyze(records).findings
    assert "times over" not in found.what
    assert "round" not in found.next_step


def test_what_comes_before_the_loop_is_not_counted() -> None:
    first = Step(kind="all_gather_single", count=8, line=10)
    rounds = {1: ROUNDS}
    records = run(world(4), lambda rank: [first, *loop(rounds.get(rank, ROUNDS + 1), *BODY), BEHIND]).records()
    (found,) = analyze(records).findings
    assert f"3 operations {ROUNDS} times over" in found.what
