"""Reports of a run that never was: whole, and safe whatever the job calls itself."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as Xml

from pycomms.chaos._report.as_json import to_json
from pycomms.chaos._report.facts import Facts
from pycomms.chaos._report.html import to_html
from pycomms.chaos._report.junit import to_junit
from pycomms.chaos._report.text import to_text
from pycomms.chaos.core.invariants import judge
from pycomms.chaos.core.parse import INVARIANTS

from ._logs import Job

NASTY = "<script>alert('\x00]]>&')</script>"


def facts(job: Job) -> Facts:
    log = job.log({"verdict": "RANK_DIED", "root_ranks": [1], "text": f"RANK_DIED {NASTY}"})
    return Facts(folder=Path("/runs/1"), command=["pycomms", "run", NASTY], log=log, judgement=judge(log))


def test_text_says_what_failed() -> None:
    job = Job()
    job.find("values", step=2, rank=1).update(wrong=1)
    text = to_text(facts(job))
    assert text.startswith("FAILED: plan, seed 0: violated: values")
    assert "FAIL values         step 2 on rank 1: 1 of 8 elements are wrong" in text
    assert "3.000 s  rank 1   kill (step 3)" in text
    assert "again:     pycomms chaos replay /runs/1" in text


def test_json_has_all() -> None:
    told = json.loads(to_json(facts(Job())))
    assert told["result"] == "passed"
    assert len(told["invariants"]) == len(INVARIANTS)
    assert told["faults"][0]["recovery"] == 1.5
    assert {one["kind"] for one in told["story"]} >= {"fault", "gone", "came", "settled"}


def test_junit_counts() -> None:
    job = Job()
    job.find("values", step=2, rank=1).update(wrong=1)
    suite = Xml.fromstring(to_junit(facts(job))).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == (str(len(INVARIANTS)), "1")
    failure = suite.find("testcase[@name='values']/failure")
    assert failure is not None
    assert "1 of 8 elements are wrong" in str(failure.get("message"))


def test_a_violation_that_is_expected_is_no_failure() -> None:
    job = Job()
    job.plan["expect"] = {"violations": ["values"]}
    suite = Xml.fromstring(to_junit(facts(job))).find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "1"  # it has held
    job.find("values", step=2, rank=1).update(wrong=1)
    suite = Xml.fromstring(to_junit(facts(job))).find("testsuite")
    assert suite is not None
    assert suite.get("failures") == "0"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.lanes: list[str] = []
        self._is_name = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._is_name = ("class", "name") in attrs

    def handle_data(self, data: str) -> None:
        if self._is_name:
            self.lanes.append(data)
        self._is_name = False


def test_the_page_runs_nothing() -> None:
    job = Job()
    job.plan["name"] = NASTY
    page = Page(to_html(facts(job)))
    assert "script" not in page.tags
    assert "default-src 'none'" in to_html(facts(job))
    assert page.lanes == ["rank 0", "rank 1", "rank 2"]
    assert page.tags.count("rect") >= 20  # lives, pauses, steps per second


def test_a_run_in_which_nothing_came_up_has_reports_too() -> None:
    job = Job()
    job.events = [one for one in job.events if one["kind"] in ("begin", "end", "left")]
    told = facts(job)
    assert "No worker was seen" in to_html(told)
    assert to_text(told).startswith("UNDECIDED")
    Xml.fromstring(to_junit(told))
