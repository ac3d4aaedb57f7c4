"""Plans as people write them, what is said where they make no sense, and plans that a seed makes."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycomms.chaos.core.drawing import SURVIVABLE, draw_plan, draw_soak, settle
from pycomms.chaos.core.kinds import KINDS
from pycomms.chaos.core.parse import PlanError, as_table, parse
from pycomms.chaos.core.plan import ANY, words
from pycomms.chaos.core.toml import to_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KILL: dict[str, Any] = {"kind": "kill", "rank": 1, "at": {"step": 20}}


def fault(**changes: Any) -> dict[str, Any]:
    return {"ranks": 4, "fault": [{name: value for name, value in {**KILL, **changes}.items() if value is not None}]}


def test_a_plan_is_read() -> None:
    plan = parse(fault(signal="SIGTERM", rank=[1, 2], times=2), "mine")
    (one,) = plan.faults
    assert (plan.name, one.kind, one.ranks, one.at.step, one.times) == ("mine", "kill", (1, 2), 20, 2)
    assert one.settings == {"signal": "SIGTERM"}
    assert words(one) == "kill ranks 1, 2 (signal=SIGTERM) at step 20, 2 times"


@pytest.mark.parametrize(
    "given_, key, expected",
    [
        ({"fault": 3}, "fault: given 3", "tables"),
        ({"faults": []}, "faults: given []", "no such key; there are about, duration, expect, fault"),
        ({"duration": 0}, "duration: given 0", "more than 0"),
        ({"seed": -1}, "seed: given -1", "0 or more"),
        ({"expect": {"outcome": "wins"}}, "expect.outcome: given 'wins'", "completes, restarts, fails, any"),
        ({"ranks": 1 << 40}, "ranks: given 1099511627776", "65536 at most"),
        ({"expect": {"violations": [["x"]]}}, "expect.violations: given [['x']]", "no-false-alarm"),
        ({"expect": {"violations": ["x"]}}, "expect.violations: given ['x']", "no-false-alarm"),
        (fault(kind="kil"), "fault[0].kind: given 'kil'", "one of kill"),
        (fault(rank=4), "fault[0].rank: given 4", "below 4"),
        (fault(rank=[1, 1]), "fault[0].rank: given [1, 1]", "each rank once"),
        (fault(rank=True), "fault[0].rank: given True", "a rank"),
        (fault(rank=None), "fault[0]: given 'neither", "one of them"),
        (fault(process="agent"), "fault[0]: given \"rank [1] and process 'agent'\"", "one of them"),
        (fault(kind="hang", rank=None, process="agent"), "fault[0].process", "hang is for workers"),
        (fault(rank=None, process="coordinator"), "fault[0].at.rank", "the coordinator has none"),
        (fault(at={}), "fault[0].at: given 'nothing'", "at = { step = 20 }"),
        (fault(at={"seconds": 1, "op": "any"}), "fault[0].at: given 'several'", "one of seconds"),
        (fault(at={"stepp": 1}), "fault[0].at.stepp: given 1", "count, moment, op"),
        (fault(at={"op": "allreduce"}), "fault[0].at.op: given 'allreduce'", "all_reduce"),
        (fault(at={"point": "x"}), "fault[0].at.point", "voted"),
        (fault(at={"step": 1, "moment": "inside"}), "fault[0].at.moment", "for operations"),
        (fault(at={"step": 1, "count": 2}), "fault[0].at.count", "counts operations or points"),
        (fault(at={"step": 1, "rank": 7}), "fault[0].at.rank: given 7", "below 4"),
        (fault(kind="skip"), "fault[0].at", "an op, moment 'before': skip changes it"),
        (
            fault(kind="oom", at={"op": "any", "moment": "inside"}),
            "fault[0].at.moment: given 'inside'",
            "before or after",
        ),
        (fault(kind="exit", code="1"), "fault[0].code: given '1'", "a whole number"),
        (fault(kind="loss", share=0), "fault[0].share: given 0", "above 0"),
        (fault(kind="cut", peers=[2, 4]), "fault[0].peers: given [2, 4]", "ranks below 4"),
        (fault(kind="partition", others=[1, 2]), "fault[0].others: given [1, 2]", "other ranks than [1]"),
        (fault(kind="partition", others=[4]), "fault[0].others: given [4]", "of those that the job has"),
        (fault(kind="partition", rank=[0, 1, 2, 3]), "fault[0].rank: given [0, 1, 2, 3]", "one side"),
        ({**fault(kind="partition"), "ranks": 0}, "fault[0].others: given []", "the plan does not say its ranks"),
        (fault(signal="SIGSTOP"), "fault[0].signal: given 'SIGSTOP'", "one of SIGKILL"),
        (fault(times=0), "fault[0].times: given 0", "1 or more"),
        (fault(code=1), "fault[0].code: given 1", "no such key; there are at, kind, process, rank, signal, times"),
    ],
)
def test_what_makes_no_sense_is_named(given_: dict[str, Any], key: str, expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse(given_)
    assert str(caught.value).startswith(key)
    assert expected in str(caught.value).split("expected", 1)[1]


@given(st.integers(0, 10_000), st.integers(2, 16), st.sets(st.sampled_from(sorted(KINDS)), min_size=1))
@settings(max_examples=200)
def test_a_seed_is_a_whole_plan(seed: int, ranks: int, kinds: set[str]) -> None:
    plan = draw_plan(seed, ranks, sorted(kinds))
    assert plan == draw_plan(seed, ranks, sorted(kinds))
    assert parse(as_table(plan)) == plan
    assert parse(tomllib.loads(to_toml(plan))) == plan
    hit = {rank for one in plan.faults for rank in one.ranks}
    assert len(hit) < ranks  # somebody is left


@given(st.integers(0, 10_000), st.integers(2, 16), st.floats(1, 60), st.integers(1, 50))
@settings(max_examples=100)
def test_a_soak_is_fault_upon_fault(seed: int, ranks: int, every: float, count: int) -> None:
    plan = draw_soak(seed, ranks, every * count, every)
    assert plan == draw_soak(seed, ranks, every * count, every)
    assert parse(tomllib.loads(to_toml(plan))) == plan
    times = [fault.at.seconds or 0.0 for fault in plan.faults]
    assert len(times) >= count - 1  # 49 * 0.1 / 0.1 is not 49 in floating point
    assert times == sorted(times)
    assert times[-1] <= every * (count + 0.31)
    for begin in times:
        hit = {rank for fault in plan.faults if begin <= (fault.at.seconds or 0.0) < begin + 20 for rank in fault.ranks}
        assert len(hit) < ranks


@pytest.mark.parametrize(
    ("seconds", "every", "kinds", "said"),
    [
        (60, 0, ["kill"], "every: given 0"),
        (5, 10, ["kill"], "no more than the 5 of all"),
        (1e300, 10, ["kill"], "expected no more than 100000 faults in all"),
        (60, 10, ["kil"], "faults: given 'kil'"),
        (60, 10, ["nan"], "faults: given 'nan', expected kinds that need no operation"),
    ],
)
def test_a_soak_that_makes_no_sense_is_refused(seconds: float, every: float, kinds: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        draw_soak(0, 4, seconds, every, kinds)


@given(st.integers(0, 10_000))
def test_ranks_that_a_plan_leaves_open_are_the_seeds(seed: int) -> None:
    plan = parse({**fault(rank=["any", 2, "any"]), "seed": seed})
    assert plan.faults[0].ranks == (ANY, 2, ANY)
    settled = settle(plan).faults[0].ranks
    assert settled == settle(plan).faults[0].ranks
    assert len(set(settled)) == 3
    assert settled[1] == 2
    assert set(settled) <= set(range(4))


def test_who_draws_faults_of_the_network_means_all_connections() -> None:
    drawn = [fault for seed in range(30) for fault in draw_plan(seed, 4, ["cut", "reset"]).faults]
    assert not any(fault.settings["store"] for fault in drawn)


def test_different_seeds_are_different_plans() -> None:
    assert len({to_toml(draw_plan(seed, 4, SURVIVABLE)).partition("[expect]")[2] for seed in range(30)}) > 25
