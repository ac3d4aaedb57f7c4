"""All planted bugs, and each failing run done again from its folder: does it fail in the same way?

python -m tests.chaos.mutations --runs 20
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.warm import WarmPython

from .planted import BUGS, Bug
from .suffering import PLANS, again, suffer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.mutations", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=len(BUGS), help="more than there are bugs: with other seeds")
    runs: int = parser.parse_args().runs
    warm = WarmPython()
    seen = same = 0
    try:
        warm.await_ready()
        for seed, bug in enumerate(islice(cycle(BUGS), runs)):
            first, second = twice(bug, seed, str(warm.executable))
            seen += bool(first)
            same += bool(first) and bool(set(first) & set(second))
            print(
                f"{bug.name}: {bug.plan}: {', '.join(first) or 'NOT SEEN'}; again: {', '.join(second) or 'NOT'}",
                flush=True,
            )
    finally:
        warm.close()
    print(f"{seen} of {runs} seen, {same} fail again")
    return 0 if seen == same == runs else 1


def twice(bug: Bug, seed: int, python: str) -> tuple[list[str], list[str]]:
    """What was violated, and what when it was done again."""
    with TemporaryDirectory(prefix="pycomms-mutation-") as name, contextlib.redirect_stdout(io.StringIO()):
        folder = Path(name)
        first = suffer(folder, bug, replace(PLANS[bug.plan], seed=seed), python)
        second = again(folder, "replay", "run", "--out", "again", "--quiet")
        after = replace(second, folder=folder / "again")
        return first.report["violated"] if first.code == 1 else [], after.report["violated"] if second.code == 1 else []


if __name__ == "__main__":
    sys.exit(main())
