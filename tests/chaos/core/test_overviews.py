"""Overviews of sets that never were: whole, and safe whatever a job calls itself."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

from pycomms.chaos._report import overview_html, overview_junit
from pycomms.chaos._report.overview import Overview, Row, State, to_json, to_text
from pycomms.chaos.core.ending import Ending
from pycomms.chaos.core.finding import judged
from pycomms.chaos.core.parse import parse

NASTY = "<script>alert('\x00]]>&')</script>"
KILL = {"kind": "kill", "rank": 1, "at": {"step": 3}}


def row(name: str, state: State, ending: Ending = Ending.GOES_ON, why: str = "all has held") -> Row:
    violated = [judged("values", "", ["2 of 8 elements are wrong", NASTY])] if state is State.FAILED else []
    plan = parse({"name": name, "about": "one is killed", "fault": [KILL]})
    folder = None if state is State.NOT_APPLICABLE else Path("/runs/1") / name
    return Row(
        plan=plan, state=state, ending=ending, why=why, seconds=8.25, recovery=0.103, folder=folder, findings=violated
    )


def overview(*states: State) -> Overview:
    rows = [row(f"{number}-{state.value.replace(' ', '-')}", state, why=NASTY) for number, state in enumerate(states)]
    return Overview(name="standard", command=["pycomms", "run", NASTY], folder=Path("/runs/1"), rows=rows)


ALL = overview(State.PASSED, State.FAILED, State.UNDECIDED, State.NOT_APPLICABLE)


def test_the_worst_counts() -> None:
    assert ALL.state is State.FAILED
    assert overview(State.PASSED, State.UNDECIDED).state is State.UNDECIDED
    assert overview(State.PASSED, State.NOT_APPLICABLE).state is State.PASSED
    assert overview(State.NOT_APPLICABLE).state is State.UNDECIDED


def test_text_is_a_table() -> None:
    text = to_text(ALL)
    assert text.startswith("FAILED: standard: 1 passed, 1 failed, 1 undecided, 1 not applicable, 33 s\n")
    assert "passed         0-passed                         8.2 s    103 ms  goes on\n" in text
    assert text.endswith("/runs/1/index.html")


def test_json_has_all() -> None:
    told = json.loads(to_json(ALL))
    assert (told["result"], told["seconds"]) == ("failed", 33.0)
    assert told["plans"][0] == {
        "name": "0-passed",
        "about": "one is killed",
        "faults": ["kill rank 1 at step 3"],
        "kinds": ["kill"],
        "result": "passed",
        "ending": "goes on",
        "why": NASTY,
        "seconds": 8.25,
        "recovery": 0.103,
        "folder": "0-passed",
    }
    assert told["plans"][3]["folder"] is None


def test_junit_has_a_case_for_each_plan() -> None:
    suite = Xml.fromstring(overview_junit.to_junit(ALL)).find("testsuite")
    assert suite is not None
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["4", "1", "1", "1"]
    failure = suite.find("testcase[@name='1-failed']/failure")
    assert failure is not None
    assert "values: 2 of 8 elements are wrong" in str(failure.text)
    assert suite.find("testcase[@name='3-not-applicable']/skipped") is not None


def test_the_index_leads_to_each_run_and_escapes() -> None:
    page = overview_html.to_html(ALL)
    assert "<script" not in page
    assert 'href="1-failed/report.html"' in page
    assert "3-not-applicable/report.html" not in page
