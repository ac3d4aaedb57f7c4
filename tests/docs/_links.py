"""Links of a page as GitHub and the site read them: which there are, and the anchors of headings."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

_FENCE = re.compile(r"^( *)(`{3,}).*?^\1\2`*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
_ELSEWHERE = re.compile(r"^[a-z]+:")


def links(page: Path) -> list[str]:
    """Those inside of the repository, in the order of the page. In code there are none."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text()))
    return [link for link in _LINK.findall(text) if not _ELSEWHERE.match(link)]


def anchors(page: Path) -> set[str]:
    """Of its headings. A heading that stands there twice has "-1" behind it the second time."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", page.read_text())):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def complaint(page: Path, link: str) -> str:
    """What is wrong with a link of a page; empty: nothing."""
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return f"no such file: {link}"
    if anchor and (target.suffix != ".md" or anchor not in anchors(target)):
        return f"no such heading: {link}"
    return ""
