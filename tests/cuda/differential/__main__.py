"""Runs the cases on both backends and prints a table and what theirs cannot; see docs/gpu.md."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .._delays import DELAYS
from ._outcome import OURS, VERDICTS, Comparison, listing, table

_DEFAULT_DELAYS = list(DELAYS)


def compare(theirs: str, world: int, delays: str, programs: int, only: list[str]) -> list[Comparison]:
    from tests.multirank._harness import Pool, Ranks

    from ._cases import trials
    from ._player import Player

    wanted = [trial for trial in trials(world, programs, delays) if any(part in str(trial) for part in only)]
    pool = Pool(preload=["tests.cuda._preload"])
    try:
        ranks = Ranks(pool, OURS)
        played = [Player(ranks, backend, world, delays).play(wanted) for backend in (OURS, theirs)]
    finally:
        pool.close()
    return [
        Comparison(area=trial.area, name=trial.name, world=world, delays=delays, ours=ours, theirs=other)
        for trial, ours, other in zip(wanted, *played, strict=True)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cuda.differential", description=__doc__)
    parser.add_argument("--theirs", default="builtin_nccl2", help="torch's backend to compare with")
    parser.add_argument("--world", type=int, nargs="*", default=[2, 4], help="numbers of ranks")
    parser.add_argument("--delays", choices=_DEFAULT_DELAYS, nargs="*", default=_DEFAULT_DELAYS)
    parser.add_argument("--programs", type=int, default=20, help="random stream programs")
    parser.add_argument("--only", nargs="*", default=[""], help="cases with this in their name")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    parser.add_argument("--show", type=Path, nargs="*", help="run nothing: put these files together")
    options = parser.parse_args()

    comparisons: list[Comparison] = []
    if options.show is not None:
        for path in options.show:
            comparisons += map(Comparison.from_json, json.loads(path.read_text()))
    else:
        for world in options.world:
            for delays in options.delays:
                comparisons += compare(options.theirs, world, delays, options.programs, options.only)
    if options.json:
        options.json.write_text(json.dumps([one.to_json() for one in comparisons], indent=1))
    print(table(comparisons))
    for verdict in VERDICTS[1:]:
        print(f"\n{verdict}:\n{listing(comparisons, verdict)}")
    return int(any(one.verdict in ("differ", "ours fails", "both fail") for one in comparisons))


if __name__ == "__main__":
    sys.exit(main())
