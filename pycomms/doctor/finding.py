"""What a check says. Plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing is broken."""
    PROBLEM = "problem"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """name: of what was looked at, always the same. todo: what to do; a problem has it. value: for programs."""

    name: str
    level: Level
    text: str
    todo: str = ""
    value: object = None


@dataclass(frozen=True, kw_only=True)
class Section:
    name: str
    findings: tuple[Finding, ...]


def ok(name: str, text: str, value: object = None) -> Finding:
    return Finding(name=name, level=Level.OK, text=text, value=value)


def note(name: str, text: str, todo: str = "", value: object = None) -> Finding:
    return Finding(name=name, level=Level.NOTE, text=text, todo=todo, value=value)


def problem(name: str, text: str, todo: str, value: object = None) -> Finding:
    return Finding(name=name, level=Level.PROBLEM, text=text, todo=todo, value=value)


def problems_of(sections: Iterable[Section]) -> list[Finding]:
    return [one for section in sections for one in section.findings if one.level is Level.PROBLEM]
