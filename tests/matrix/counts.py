"""What the steps of `make test` have counted, read from what they print. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass

_STEP = re.compile(r"== (?P<name>.+)")
_PYTEST = re.compile(r"(?P<what>(?:\d+ [a-z]+, )*\d+ [a-z]+) in [\d.]+s(?: \([\d:]+\))?")
_PYTEST_PART = re.compile(r"(\d+) (passed|failed|skipped|error)s?\b")
_CTEST = re.compile(r"\d+% tests passed(?:, (?P<failed>\d+) tests? failed)? out of (?P<all>\d+)")
_UPSTREAM = re.compile(r"nccl2 +\d+ [a-z]+ +(?P<passed>\d+) +(?P<failed>\d+) +(?P<skipped>\d+) +(?P<excepted>\d+) +\d+")


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, **more: int) -> None:
        for name, number in more.items():
            setattr(self, name, getattr(self, name) + number)


def counts(lines: Iterable[str]) -> dict[str, Count]:
    """By step, in the order in which they ran. A step that counts nothing is left out."""
    found: dict[str, Count] = {}
    step = ""
    for line in lines:
        if match := _STEP.fullmatch(line):
            step = match["name"]
        elif numbers := _numbers(line):
            found.setdefault(step, Count()).add(**numbers)
    return found


def _numbers(line: str) -> dict[str, int]:
    if match := _PYTEST.fullmatch(line.strip("= ")):
        numbers = {name: int(number) for number, name in _PYTEST_PART.findall(match["what"])}
        errors = numbers.pop("error", 0)
        return {**numbers, "failed": numbers.get("failed", 0) + errors} if errors else numbers
    if match := _CTEST.fullmatch(line):
        failed = int(match["failed"] or 0)  # newer ones of ctest do not say that there is none
        return {"passed": int(match["all"]) - failed, "failed": failed}
    if match := _UPSTREAM.fullmatch(line.rstrip()):
        # What the list of exceptions expects to fail is counted with what does not apply.
        return {
            "passed": int(match["passed"]),
            "failed": int(match["failed"]),
            "skipped": int(match["skipped"]) + int(match["excepted"]),
        }
    return {}


def as_json(found: dict[str, Count]) -> dict[str, dict[str, int]]:
    return {step: asdict(count) for step, count in found.items()}
