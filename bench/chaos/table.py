"""Who gets over what: the table of docs/chaos.md, from what `pycomms chaos set` has written of several jobs.

    python -m bench.chaos.table pycomms=out/a "torchrun, gloo=out/b,out/c" --keep bench/chaos/results.json
    python -m bench.chaos.table --from bench/chaos/results.json

Each job is a name and the folders of its sets, of which a later one counts where two have the same plan,
unless it was interrupted there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pycomms.chaos.core.ending import Ending

Result = Mapping[str, Any]
"""ending: in one word; recovery: seconds, or None."""
Results = dict[str, dict[str, Result]]
"""By job, by plan."""

_SHORT = {Ending.NOT_APPLICABLE: "n/a", Ending.UNKNOWN: "?"}
_BOLD = (Ending.HANGS, Ending.WRONG, Ending.FAILS_SILENTLY)


def gather(jobs: Mapping[str, Sequence[Path]]) -> Results:
    """Raises OSError or ValueError where a folder is none of a set."""
    found: Results = {}
    for job, folders in jobs.items():
        plans = found.setdefault(job, {})
        for folder in folders:
            for plan in json.loads((folder / "set.json").read_text())["plans"]:
                recovery = plan["recovery"]
                if plan["ending"] == Ending.UNKNOWN.value and plan["name"] in plans:
                    continue
                plans[plan["name"]] = {
                    "ending": plan["ending"],
                    "recovery": None if recovery is None else round(recovery, 3),
                }
    return found


def render(results: Results) -> str:
    """Of Markdown: a line for each plan, a column for each job; below, how often each ending was."""
    jobs = list(results)
    names = sorted({name for plans in results.values() for name in plans})
    lines = [_row("plan", jobs), _row("---", ["---"] * len(jobs))]
    lines += [_row(f"`{name}`", [_cell(results[job].get(name)) for job in jobs]) for name in names]
    for ending in Ending:
        counts = [sum(one["ending"] == ending.value for one in results[job].values()) for job in jobs]
        if any(counts):
            lines.append(_row(f"*{ending.value}*", [str(count) if count else "" for count in counts]))
    return "\n".join(lines)


def _row(first: str, others: Sequence[str]) -> str:
    return f"| {first} | {' | '.join(others)} |"


def _cell(result: Result | None) -> str:
    ending = Ending.UNKNOWN if result is None else Ending(result["ending"])
    said = _SHORT.get(ending, ending.value)
    if ending in _BOLD:
        said = f"**{said}**"
    took = None if result is None else result["recovery"]
    if took is None or ending not in (Ending.GOES_ON, Ending.BEGINS_ANEW):
        return said
    return f"{said}, {took:.1f} s" if took >= 1 else f"{said}, {1e3 * took:.0f} ms"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.chaos.table", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", nargs="*", metavar="NAME=FOLDER,…")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="write what the table is made of")
    parser.add_argument("--from", type=Path, dest="kept", metavar="FILE", help="what --keep has written")
    arguments = parser.parse_args(argv)
    results: Results = json.loads(arguments.kept.read_text()) if arguments.kept else {}
    jobs = dict(job.split("=", 1) for job in arguments.jobs)
    results.update(gather({name: [Path(one) for one in folders.split(",")] for name, folders in jobs.items()}))
    if arguments.keep:
        arguments.keep.write_text(json.dumps(results, indent=1, sort_keys=False) + "\n")
    print(render(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
