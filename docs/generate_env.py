"""Writes docs/env.md from the fields of pycomms' configuration: python docs/generate_env.py [--check]

With --check nothing is written, and the exit status says whether the page is up to date.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

import pycomms
from pycomms._config import Config, Membership, variable_of

PAGE = Path(__file__).with_name("env.md")
INTRODUCTION = """# Environment variables

pycomms reads them once, when the first group is made. A value that makes no sense raises `ValueError`.

| variable | meaning | default |
|---|---|---|
"""
OF_MEMBERS = """

## Members of a job

For [`pycomms.ft`](ft.md). [`pycomms run`](run.md) sets them for its workers. A worker without an agent, which speaks to
a [coordinator](ft_coordinator.md) itself, needs the coordinator's address and the job's token.

| variable | meaning |
|---|---|
"""
END = "\n\nThis page is made by `make docs` from `pycomms/_config.py`.\n"


def page() -> str:
    rows = [f"| `{variable_of(f.name)}` | {f.metadata['help']} | {_default(f)} |" for f in fields(Config)]
    of_members = [f"| `{variable_of(f.name, Membership)}` | {f.metadata['help']} |" for f in fields(Membership)]
    return INTRODUCTION + "\n".join(rows) + OF_MEMBERS + "\n".join(of_members) + END


def _default(f: Field[Any]) -> str:
    if isinstance(f.default, Path):
        package = Path(pycomms.__file__).parent
        return f"`{f.default.relative_to(package.parent).as_posix()}` beside the package"
    if isinstance(f.default, bool):
        return f"`{int(f.default)}`"
    return f"`{f.default}`" if f.default else "empty"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    if not check:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        print("docs/env.md is not what pycomms/_config.py says: run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
