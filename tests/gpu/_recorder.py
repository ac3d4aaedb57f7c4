"""A plug-in for pytest: one line of JSON for each test that begins or has ended, at once. For `_conformance`.

Must not import torch: the emulator comes first.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

RESULTS = "PYCOMMS_TEST_RESULTS"  # the variable that names the file


def pytest_runtest_logstart(nodeid: str) -> None:
    _note(nodeid, "begun", "")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        _note(report.nodeid, report.outcome, _text(report))


def _text(report: pytest.TestReport) -> str:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    return report.longreprtext


def _note(test: str, outcome: str, text: str) -> None:
    with Path(os.environ[RESULTS]).open("a") as file:
        file.write(json.dumps({"test": test, "outcome": outcome, "text": text}) + "\n")
