"""docs/chaos.md tells of the bugs that are planted, and of no others."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.mutations.planted import BUGS

DOCS = Path(__file__).parents[3] / "docs" / "chaos.md"


def test_all_planted_bugs_are_in_the_docs() -> None:
    section = DOCS.read_text().split("## Does it see bugs?")[1].split("## ")[0]
    told = [line.split(" | ")[:2] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    assert told == [[f"| {bug.name}", f"`{bug.plan}`"] for bug in BUGS]
