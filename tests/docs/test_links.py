"""Every link inside the repository leads somewhere, as GitHub shows the pages; `make links` asks for the others.

The build of the site checks those between its pages, and not those of README.md, nor where a link out of docs/ leads.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs._blocks import ROOT, name_of
from tests.docs._links import anchors, complaint, links

FOLDERS = ("", "docs/**/", "examples/", "launch/", "bench/")
PAGES = sorted(page for folder in FOLDERS for page in ROOT.glob(f"{folder}*.md"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert not [wrong for link in links(page) if (wrong := complaint(page, link))]


def test_links_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"} <= {name_of(page) for page in PAGES}
    assert sum(len(links(page)) for page in PAGES) > 200


def test_what_is_wrong_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `word`, two\n## Again\n### Again\n[here](#again-1) [there](page.md#one-word-two) `[code](none.md)`\n"
        "```\n# [no](link.md)\n```\n[a](gone.md) [b](#gone) [c](https://example.org/gone)\n"
    )
    assert anchors(page) == {"one-word-two", "again", "again-1"}
    assert links(page) == ["#again-1", "page.md#one-word-two", "gone.md", "#gone"]
    told = [complaint(page, link) for link in links(page)]
    assert told == ["", "", "no such file: gone.md", "no such heading: #gone"]
