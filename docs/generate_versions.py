"""Writes docs/versions.md, what needs what: python docs/generate_versions.py [--check] [--take doctor.json]

From the table in pycomms/doctor/capabilities.py and from docs/versions.json, in which --take keeps what
`pycomms doctor --json` has found with one torch. With --check nothing is written, and the exit status says whether the
page is up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from pycomms.doctor.capabilities import ANY_NCCL, CAPABILITIES, EXTENSION, Capability

PAGE = Path(__file__).with_name("versions.md")
FOUND = Path(__file__).with_name("versions.json")
INTRODUCTION = """# What needs what

Linux, Python 3.10 or newer, torch 2.11 or newer. One build of pycomms serves one torch version (such as 2.14) and one
Python version ([building](building.md)). Some of it needs more than that.

[`pycomms doctor`](doctor.md) tells what is there on your machine. It looks for the thing itself, not at version
numbers: those in the second column are the oldest that we know to have it. The columns of versions are what the doctor
has found with that torch from PyPI, and the NCCL that comes with it. GPUs, Python and other packages are left out of
them, for they are not torch's.

"""
END = "\nThis page is made by `make docs` from `pycomms/doctor/capabilities.py` and `docs/versions.json`.\n"

Missing: TypeAlias = Mapping[str, Sequence[str]]
"""Of each capability by name, the needs that are not met."""


def page(found: Mapping[str, Missing]) -> str:
    """found: by version of torch."""
    titles = ["", "needs", *(f"torch {version}" for version in found), "without it"]
    rows = [titles, ["---"] * len(titles), *(_cells(one, list(found.values())) for one in CAPABILITIES)]
    return INTRODUCTION + "".join(f"| {' | '.join(cells)} |\n" for cells in rows) + END


def _cells(one: Capability, found: Sequence[Missing]) -> list[str]:
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
    return f"no: {', '.join(lacks)}" if lacks else "yes"


def take(found: Mapping[str, Missing], doctor: Path) -> dict[str, Missing]:
    """With what a run of the doctor has found; newer versions come first."""
    said = json.loads(doctor.read_text())
    capabilities = said["capabilities"]
    if any(one["available"] is None for one in capabilities.values()):
        raise SystemExit(f"{doctor}: torch and the extension did not work there")
    taken = {name: one["missing"] for name, one in capabilities.items()}
    more = {**found, said["torch"].partition("+")[0]: taken}
    newest_first = sorted(more, key=lambda version: [*map(int, re.findall(r"\d+", version))], reverse=True)
    return {version: more[version] for version in newest_first}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--take", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    found: dict[str, Missing] = json.loads(FOUND.read_text())
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
