"""What a program tells of itself, and logs that somebody has damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pycomms.chaos._controller.folder import RunError, create, describe, recorded
from pycomms.chaos._judging import judge_folder
from pycomms.chaos.core.events import check_told, flaw
from pycomms.chaos.core.finding import State
from pycomms.chaos.core.invariants import judge
from pycomms.chaos.core.parse import parse
from tests.chaos.core._logs import Job


def own(spoilt: dict[str, Any]) -> dict[str, State]:
    """Of a job that tells its own digests and samples, one of them wrong."""
    job = Job()
    for event in job.events:
        if event["kind"] == "values":
            for name in ("head", "total", "elements", "wrong"):
                del event[name]
    last = [event for event in job.events if event["kind"] == "values"][-1]
    last.update(spoilt)
    return {one.invariant: one.state for one in judge(job.log()).findings}


def test_a_program_of_ones_own_tells_what_it_has() -> None:
    found = own({})
    assert (found["values"], found["agreement"], found["samples"]) == (State.UNCHECKED, State.HELD, State.HELD)
    assert own({"digest": 5})["agreement"] is State.VIOLATED
    assert own({"samples": [0, 900]})["samples"] is State.VIOLATED
    assert own({"samples": [900, 900]})["samples"] is State.VIOLATED


def test_events_of_a_log_are_whole() -> None:
    assert [flaw(event, 1) for event in Job().events if flaw(event, 1)] == []


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("values", {"digest": 5}, "expected values with step of type int"),
        ("values", {"step": "one"}, "expected values with step of type int"),
        ("values", {"step": 1, "samples": 3}, "expected values with samples of type list"),
        ("values", {"step": 1, "head": 4}, "expected values with elements of type int"),
        ("values", {"step": 1, "head": "4", "elements": 1, "wrong": 0}, "head and total are whole numbers"),
        ("fault", {}, "kind: given 'fault', expected a text that is none of"),
        (3, {}, "kind: given 3"),
        ("mine", {"t": 3.0}, "t: given 3.0, expected other fields"),
        ("mine", {"rank": 3}, "rank: given 3, expected other fields"),
        ("mine", {"what": object()}, "expected what JSON can hold"),
        ("mine", {"what": "x" * (1 << 20)}, "expected 524288 at most"),
    ],
)
def test_what_nobody_could_judge_is_refused(kind: object, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_told(kind, fields)


def run_in(path: Path) -> Path:
    """A folder of a run with a log that is right."""
    job = Job()
    folder = create(path / "run", "run")
    describe(folder, parse(job.plan), ["true"], {})
    folder.events.write_text("".join(json.dumps(event) + "\n" for event in job.events))
    return folder.path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("3", "given '3', expected an object with a kind and a time t"),
        ('{"t": 3}', "expected an object with a kind and a time t"),
        ("{", "given '{', expected an object"),
        ('{"t": 3, "kind": "gone"}', "expected gone with pid of type int"),
        ('{"t": 3, "kind": "fault", "fault": 9, "pid": 3, "what": "kill", "where": ""}', "fault below 1"),
    ],
)
def test_a_log_that_is_damaged(tmp_path: Path, line: str, said: str) -> None:
    path = run_in(tmp_path)
    log = path / "events.jsonl"
    whole = log.read_text()
    log.write_text(f"{whole}{line[:-1]}")  # cut off, as when the controller is killed
    assert judge_folder(path).judgement.violated == ()
    log.write_text(f"{line}\n{whole}")
    with pytest.raises(RunError, match=r"events\.jsonl, line 1: ") as refused:
        judge_folder(path)
    assert said in str(refused.value)
    log.unlink()
    with pytest.raises(RunError, match="cannot be read: No such file"):
        judge_folder(path)


@pytest.mark.parametrize(
    ("described", "said"),
    [
        ([], "given no folder of a run"),
        ({"command": "true", "plan": {}}, "command: given 'true', expected a list of words"),
        ({"command": [], "plan": {}}, r"command: given \[\], expected a list of words"),
        ({"command": ["true"], "plan": 3}, "plan: the plan: given 3, expected a table"),
        ({"command": ["true"], "plan": {"rnks": 3}}, "plan: rnks: given 3, expected no such key"),
    ],
)
def test_a_description_that_is_damaged(tmp_path: Path, described: object, said: str) -> None:
    path = run_in(tmp_path)
    (path / "run.json").write_text(json.dumps(described))
    with pytest.raises(RunError, match=said):
        recorded(path)
