"""The code blocks of a page."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = tuple(sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]))

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """In the order of the page. page: its path in the repository."""
    return [text for found, text in _BLOCK.findall((ROOT / page).read_text()) if found == language]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()
