"""The report as text and as JSON."""

from __future__ import annotations

import json

from pycomms.doctor.finding import Section, note, ok, problem
from pycomms.doctor.render import as_json, text, verdict

from ._given import told

FULL = problem("/dev/shm", "1 MiB free", "make room")
GOOD = Section(name="versions", findings=(ok("pycomms", "0.1.0", "0.1.0"), note("torch", "old", "get a new one")))
BAD = Section(name="limits", findings=(FULL,))


def test_text() -> None:
    assert text([GOOD, BAD]) == (
        "versions\n"
        "  ok       pycomms  0.1.0\n"
        "  note     torch    old\n"
        "                    → get a new one\n"
        "\n"
        "limits\n"
        "  problem  /dev/shm  1 MiB free\n"
        "                     → make room\n"
        "\n"
        "1 problem:\n"
        "  /dev/shm: make room"
    )


def test_long_lines_are_wrapped() -> None:
    lines = text([Section(name="limits", findings=(ok("memory", "word " * 60),))]).splitlines()
    assert max(map(len, lines)) <= 110
    assert lines[2].startswith(" " * 19 + "word")


def test_verdicts() -> None:
    assert verdict([Section(name="x", findings=(ok("a", "b"),))]) == "all is well"
    assert verdict([GOOD]) == "all is well, with a note"
    assert verdict([GOOD, GOOD]) == "all is well, with 2 notes"
    assert verdict([GOOD, BAD, BAD]).splitlines()[0] == "2 problems:"


def test_json() -> None:
    said = json.loads(as_json([GOOD, BAD], told(), 1.234))
    assert (said["schema"], said["well"], said["torch"], said["seconds"]) == (1, False, "2.14.1+cu130", 1.23)
    assert said["problems"] == [{"name": "/dev/shm", "text": "1 MiB free", "todo": "make room"}]
    assert said["sections"]["versions"][0] == {
        "name": "pycomms",
        "level": "ok",
        "text": "0.1.0",
        "todo": "",
        "value": "0.1.0",
    }
    assert said["capabilities"]["cpu_tensors"]["available"] is True
    assert json.loads(as_json([GOOD], told(without=["torch", "capabilities"]), 1.0))["torch"] == ""
