"""The findings as text and as JSON. Pure."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

from pycomms.doctor import table
from pycomms.doctor.child import Told
from pycomms.doctor.finding import Finding, Level, Section, problems_of

SCHEMA = 1
_WIDTH = 110
_LEVEL = 9
_BEGINS = "→ "


def text(sections: Sequence[Section]) -> str:
    lines: list[str] = []
    for section in sections:
        width = max((len(one.name) for one in section.findings), default=0)
        lines += [section.name, *(line for one in section.findings for line in _lines(one, width)), ""]
    return "\n".join([*lines, verdict(sections)])


def _lines(one: Finding, width: int) -> list[str]:
    margin = " " * (2 + _LEVEL + width + 2)
    lines = _wrapped(f"  {one.level.value:{_LEVEL}}{one.name:{width}}  {one.text}", margin)
    return lines + (_wrapped(f"{margin}{_BEGINS}{one.todo}", margin + "  ") if one.todo else [])


def _wrapped(text: str, margin: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)


def verdict(sections: Sequence[Section]) -> str:
    """What to do about the problems comes once more: much may lie between."""
    problems = problems_of(sections)
    notes = sum(one.level is Level.NOTE for section in sections for one in section.findings)
    if not problems:
        return f"all is well{f', with {notes} notes' if notes > 1 else ', with a note' if notes else ''}"
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return "\n".join(
        [f"{count}:", *(line for one in problems for line in _wrapped(f"  {one.name}: {one.todo}", "    "))]
    )


def as_json(sections: Sequence[Section], told: Told, seconds: float) -> str:
    """seconds: that it took."""
    return json.dumps(
        {
            "schema": SCHEMA,
            "well": not problems_of(sections),
            "problems": [{"name": one.name, "text": one.text, "todo": one.todo} for one in problems_of(sections)],
            "torch": (told.of("torch") or {}).get("version", ""),
            "capabilities": table.for_programs(told),
            "sections": {section.name: [_plain(one) for one in section.findings] for section in sections},
            "seconds": round(seconds, 2),
        },
        indent=1,
    )


def _plain(one: Finding) -> dict[str, object]:
    return {"name": one.name, "level": one.level.value, "text": one.text, "todo": one.todo, "value": one.value}
