"""What is made of what the two ranks of the self-check tell."""

from __future__ import annotations

from typing import Any

from pycomms.doctor import self_check
from pycomms.doctor._rank import SUMS
from pycomms.doctor.child import Told
from pycomms.doctor.finding import Level

from ._given import by_name

STAGES: dict[str, dict[str, Any]] = {
    "import": {},
    "group": {"ms": 20.0},
    **{one.stage: {"bytes": one.bytes, "median_us": 5.0} for one in SUMS},
    "death": {"at_ns": 1_000_000},
    "regroup": {"ms": 3.0},
}


def rank(until: str = "", *, ended: str = "", last_words: str = "", **changes: dict[str, Any]) -> Told:
    """One that got through all stages before this one."""
    names = [*STAGES]
    through = names[: names.index(until)] if until else names
    stages = {name: changes.get(name, STAGES[name]) for name in through}
    return Told(stages=stages, broke_in=until, ended=ended, last_words=last_words)


KILLED = rank("regroup", ended="was ended by SIGKILL")


def test_all_is_well() -> None:
    found = by_name(self_check.judge([rank(death={"at_ns": 3_500_000}), KILLED]))
    assert {one.level for one in found.values()} == {Level.OK}
    assert [*found] == ["group", "all_reduce of 8 B", "all_reduce of 1 MiB", "death", "regroup"]
    assert found["death"].value == {"ms": 2.5}
    assert found["all_reduce of 8 B"].value == {"bytes": 8, "median_us": 5.0}


def test_what_became_of_both_is_told_up_to_the_first_trouble() -> None:
    crashed = rank("group", ended="was ended by SIGSEGV")
    waited = rank("group", ended="did not end in time")
    (found,) = self_check.judge([waited, crashed])
    assert (found.level, found.name) == (Level.PROBLEM, "group")
    assert "rank 0: its process did not end in time" in found.text
    assert "rank 1: its process was ended by SIGSEGV" in found.text


def test_a_sum_that_is_wrong() -> None:
    words = "AssertionError: element 3 of the sum over 2 ranks is 6, expected 7"
    wrong = rank("all_reduce of 1 MiB", ended="ended with exit code 1", last_words=words)
    *fine, found = self_check.judge([wrong, KILLED])
    assert [one.name for one in fine] == ["group", "all_reduce of 8 B"]
    assert (found.level, words in found.text) == (Level.PROBLEM, True)


def test_a_survivor_that_does_not_go_on() -> None:
    *_, found = self_check.judge([rank("regroup", ended="did not end in time"), KILLED])
    assert (found.name, found.level) == ("regroup", Level.PROBLEM)


def test_an_older_torch_cannot_regroup() -> None:
    *_, found = self_check.judge([rank(regroup={"needs": "torch 2.14"}), KILLED])
    assert (found.level, found.text) == (Level.NOTE, "not tried: it needs torch 2.14")


def test_ranks_that_cannot_be_started() -> None:
    assert by_name(self_check.failed(OSError("no room")))["self-check"].level is Level.PROBLEM
    assert by_name(self_check.skipped("asked for"))["self-check"].level is Level.NOTE
