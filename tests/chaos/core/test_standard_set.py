"""The plans that come with pycomms: whole, readable, and of every kind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import pycomms
from pycomms.chaos._plans import plans_of, standard_set
from pycomms.chaos.core.drawing import settle
from pycomms.chaos.core.kinds import KINDS
from pycomms.chaos.core.needs import Need, lacking, needs_of

from ._logs import Job

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PLANS = standard_set()


def test_a_wheel_has_the_plans() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["pycomms"]
    package = Path(pycomms.__file__).parent
    shipped = {path.stem for pattern in patterns for path in package.glob(pattern)}
    assert {plan.name for plan in PLANS} <= shipped


def test_every_kind_of_fault_is_in_it() -> None:
    assert {fault.kind for plan in PLANS for fault in plan.faults} == {
        name for name, kind in KINDS.items() if not kind.on_emulator
    }
    assert len(PLANS) >= 25


def test_what_needs_an_emulator_has_plans_of_its_own() -> None:
    plans = plans_of(Path(__file__).parents[1] / "emulated" / "plans")
    assert {fault.kind for plan in plans for fault in plan.faults} >= {
        name for name, kind in KINDS.items() if kind.on_emulator
    }
    assert all(Need.EMULATOR in needs_of(plan) for plan in plans if plan.name != "kill-on-gpu")


def test_the_moments_that_matter_are_in_it() -> None:
    points = {fault.at.point for plan in PLANS for fault in plan.faults}
    assert points >= {
        "joining",
        "regrouping",
        "serving",
        "fetching",
        "loading",
        "voted",
        "decided",
        "committed",
        "closing",
    }
    assert {fault.process for plan in PLANS for fault in plan.faults} == {"", "coordinator", "agent"}
    assert any(fault.times > 1 for plan in PLANS for fault in plan.faults)
    assert any(len(set(fault.ranks)) == plan.ranks - 1 for plan in PLANS for fault in plan.faults)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_a_plan_says_what_it_is_and_leaves_nothing_to_chance(plan: object) -> None:
    one = next(each for each in PLANS if each is plan)
    assert one.about
    assert settle(one) == one
    assert one.ranks == 4
    assert one.expect.injected == "all"
    hit = {rank for fault in one.faults for rank in fault.ranks if fault.kind == "kill"}
    assert len(hit) < one.ranks


def test_a_folder_is_read_by_name(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.toml").write_text('[[fault]]\nkind = "kill"\nrank = 1\nat = { step = 3 }\n')
    assert [plan.name for plan in plans_of(tmp_path)] == ["a", "b"]
    (tmp_path / "c.toml").write_text('name = "a"\n')
    with pytest.raises(ValueError, match="several plans of the name a"):
        plans_of(tmp_path)
    (tmp_path / "c.toml").write_text("fault = 3\n")
    with pytest.raises(ValueError, match=r"c\.toml: fault: given 3"):
        plans_of(tmp_path)


def test_a_folder_without_plans_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected files \*\.toml"):
        plans_of(tmp_path)


def test_what_a_plan_needs_and_a_job_lacks() -> None:
    needs = {plan.name: needs_of(plan) for plan in PLANS}
    assert needs["kill-at-step"] == set()
    assert needs["kill-voting"] == {Need.SESSION}
    assert needs["coordinator-killed"] == {Need.COORDINATOR}
    assert needs["store-cut"] == {Need.STORE}
    assert lacking(Job().log()) == {Need.STORE}  # a session needs none
    plain = Job({"ranks": 3, "fault": [{"kind": "kill", "process": "coordinator", "at": {"step": 3, "rank": 0}}]})
    plain.events = [one for one in plain.events if one["kind"] not in ("point", "fault")]
    plain.add(3.0, "not-injected", fault=0, why="no process of a coordinator was found")
    assert lacking(plain.log()) == {Need.SESSION, Need.COORDINATOR}
    settings = {"kind": "cut", "rank": 1, "store": True, "at": {"step": 3}}
    without_store = Job({"ranks": 3, "fault": [settings]})
    without_store.add(4.0, "not-injected", fault=0, why="the process has no connection to a store at MASTER_PORT")
    without_store.events = [one for one in without_store.events if one["kind"] != "point"]
    assert lacking(without_store.log()) == {Need.SESSION, Need.STORE}
