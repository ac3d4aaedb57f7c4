"""Writes docs/versions.md, what needs what: python docs/generate_versions.py [--check] [--take result.json]

From the table in pycomms/doctor/capabilities.py and from docs/versions.json, in which --take keeps what
`python -m tests.matrix` has found with one torch and one Python. With --check nothing is written, and the exit status
says whether the page is up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from pycomms.doctor.capabilities import ANY_NCCL, CAPABILITIES, EXTENSION, Capability

PAGE = Path(__file__).with_name("versions.md")
FOUND = Path(__file__).with_name("versions.json")
INTRODUCTION = """# What needs what

Linux, Python 3.10 or newer, torch 2.11 or newer. One build of pycomms serves one torch version (such as 2.14) and one
Python version ([building](building.md)). Some of it needs more than that.

[`pycomms doctor`](doctor.md) tells what is there on your machine. It looks for the thing itself, not at version
numbers: those in the second column are the oldest that we know to have it. The columns of versions are what the doctor
has found with that torch, and the NCCL that comes with it: none with a build for the CPU. GPUs, Python and other
packages are left out of them, for they are not torch's.

"""
TESTS = """
## Tests passed

`python -m tests.matrix torch==2.14.1 --python python3.11` runs in a fresh clone what a newcomer with that torch runs:
`make setup`, `make demo` and `make test`. Each cell is the number of tests that passed (of C++: of programs with
tests); behind it what was skipped, for instance because it needs a newer torch, and what failed. "Not run" are with
`--targets` the steps in which there is no Python, such as the tests in C++.

"""
END = """
This page is made by `make docs` from `pycomms/doctor/capabilities.py` and `docs/versions.json`.
"""


class Run(TypedDict):
    """With one torch and one Python."""

    where: str  # interpreter and machine
    took: dict[str, int]  # seconds by target of make
    steps: dict[str, dict[str, int]]  # of make test: passed, failed, skipped


class Found(TypedDict):
    """With one torch."""

    missing: dict[str, list[str]]  # of each capability by name, the needs that are not met
    runs: dict[str, Run]  # by version of Python, such as 3.11


def page(found: Mapping[str, Found]) -> str:
    """found: by version of torch."""
    titles = [f"torch {version}" for version in found]
    missing = [one["missing"] for one in found.values()]
    capabilities = _table(["", "needs", *titles, "without it"], [_cells(one, missing) for one in CAPABILITIES])
    pythons = sorted({python for one in found.values() for python in one["runs"]}, key=_numbers, reverse=True)
    return INTRODUCTION + capabilities + TESTS + "\n".join(_passed(found, python) for python in pythons) + END


def _passed(found: Mapping[str, Found], python: str) -> str:
    """With one Python: a column for each torch that ran with it."""
    runs = {version: one["runs"][python] for version, one in found.items() if python in one["runs"]}
    names = dict.fromkeys(name for one in found.values() for run in one["runs"].values() for name in run["steps"])
    rows = [[name, *(_count(run["steps"].get(name)) for run in runs.values())] for name in names]
    rows += [
        [
            f"`make {target}`",
            *(f"{run['took'][target]} s" if target in run["took"] else "not run" for run in runs.values()),
        ]
        for target in ("setup", "demo", "test")
    ]
    rows.append(["with", *(run["where"] for run in runs.values())])
    return f"### Python {python}\n\n" + _table(["", *(f"torch {version}" for version in runs)], rows)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _count(count: Mapping[str, int] | None) -> str:
    if count is None:
        return "not run"
    text = f"{count['passed']:,}"
    if count["failed"]:
        text += f", **{count['failed']} failed**"
    return text + (f" ({count['skipped']} skipped)" if count["skipped"] else "")


def _cells(one: Capability, found: Sequence[Mapping[str, Sequence[str]]]) -> list[str]:
    needs = [need.text for need in one.needs if need is not EXTENSION]
    if one.needs[-1].text.startswith("NCCL "):  # which says more than that there is one
        needs = [text for text in needs if text != ANY_NCCL.text or text == needs[-1]]
    verdicts = [_verdict(missing.get(one.name)) for missing in found]
    return [f"[{one.what}]({one.page})", ", ".join(needs) or "nothing more", *verdicts, one.otherwise]


def _verdict(missing: Sequence[str] | None) -> str:
    """Of a version of torch. None: the doctor has not been asked since."""
    if missing is None:
        return "not known"
    lacks = [need for need in missing if need.startswith(("torch ", "NCCL ")) or need == EXTENSION.text]
    if ANY_NCCL.text in lacks:
        lacks = [need for need in lacks if need == ANY_NCCL.text or not need.startswith("NCCL ")]
    return f"no: {', '.join(lacks)}" if lacks else "yes"


def _label(version: str) -> str:
    """2.14.1+cu130: 2.14.1, which pip gives. 2.13.0+cpu stays: it has no NCCL."""
    return version if version.endswith("+cpu") else version.partition("+")[0]


def take(found: Mapping[str, Found], result: Path) -> dict[str, Found]:
    """With what a run of tests.matrix has found; newer versions come first."""
    said = json.loads(result.read_text())
    doctor = said["doctor"]
    if any(one["available"] is None for one in doctor["capabilities"].values()):
        raise SystemExit(f"{result}: torch and the extension did not work there")
    label = _label(doctor["torch"])
    python = ".".join(said["python"].split(".")[:2])
    run: Run = {
        "where": f"Python {said['python']}, {said['cores']} cores",
        "took": {target: one["seconds"] for target, one in said["took"].items()},
        "steps": said["steps"],
    }
    taken: Found = {
        "missing": {name: one["missing"] for name, one in doctor["capabilities"].items()},
        "runs": {**(found[label]["runs"] if label in found else {}), python: run},
    }
    more = {**found, label: taken}
    return {version: more[version] for version in sorted(more, key=_numbers, reverse=True)}


def _numbers(version: str) -> list[int]:
    return [*map(int, re.findall(r"\d+", version))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--take", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    found: dict[str, Found] = json.loads(FOUND.read_text())
    if arguments.take:
        found = take(found, arguments.take)
        FOUND.write_text(json.dumps(found, indent=1) + "\n")
    if not arguments.check:
        PAGE.write_text(page(found))
    elif PAGE.read_text() != page(found):
        print(f"{PAGE} is not what the doctor says: run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
