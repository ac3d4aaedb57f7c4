"""python -m pycomms.ft.core.simulator: many small schedules, or one large."""

from __future__ import annotations

import argparse
import gc
import json
import sys

from pycomms.ft.core.simulator.schedule import Outcome, Schedule, large, run, shrink, small


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pycomms.ft.core.simulator", description=__doc__)
    parser.add_argument("--members", type=int, help="one large job of so many; without it: small jobs")
    parser.add_argument("--failures", type=int, default=100, help="members of the large job that die")
    parser.add_argument("--seed", type=int, default=0, help="of the job, or of the first small one")
    parser.add_argument("--seeds", type=int, default=1000, help="small jobs, one after the other")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if options.members is not None:
        schedules = [large(options.seed, options.members, options.failures)]
    else:
        schedules = [small(seed) for seed in range(options.seed, options.seed + options.seeds)]
    total = Outcome()
    ends: dict[str, int] = {}
    gc.disable()  # the objects of 10,000 members are many, and few of them are garbage
    for schedule in schedules:
        outcome = run(schedule)
        if outcome.violation:
            print(_failure(options, schedule, outcome), file=sys.stderr)
            return 1
        _add(total, outcome)
        ends[outcome.end] = ends.get(outcome.end, 0) + 1
    _report(total, ends, len(schedules), as_json=options.json)
    return 0


def _failure(options: argparse.Namespace, schedule: Schedule, outcome: Outcome) -> str:
    lines = [f"seed {schedule.seed}: {outcome.violation}"]
    if options.members is None:
        schedule = shrink(schedule)
        lines.append(f"the fewest faults: {run(schedule).violation}")
        lines.append(str(schedule.settings))
        replay = f"--seed {schedule.seed} --seeds 1"
    else:
        replay = f"--members {options.members} --failures {options.failures} --seed {schedule.seed}"
    lines += [f"  {fault}" for fault in schedule.faults]
    return "\n".join([*lines, f"again: python -m pycomms.ft.core.simulator {replay}"])


def _add(total: Outcome, one: Outcome) -> None:
    for name in ("epochs", "committed", "given_up", "restored", "simulated_seconds", "seconds", "quorum_seconds"):
        setattr(total, name, getattr(total, name) + getattr(one, name))
    total.events += one.events
    total.notices += one.notices


def _report(total: Outcome, ends: dict[str, int], count: int, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**vars(total), "schedules": count, "ends": ends}, indent=1))
        return
    print(f"{count} schedules, {total.epochs} epochs, {total.committed} steps, no violation")
    print(f"steps given up {total.given_up}, states fetched {total.restored}")
    print(
        f"simulated {total.simulated_seconds:.0f} s in {total.seconds:.1f} s, of which the quorum took "
        f"{total.quorum_seconds:.2f} s"
    )
    print("to the coordinator:", ", ".join(f"{name} {number}" for name, number in sorted(total.events.items())))
    print("from it:", ", ".join(f"{name} {number}" for name, number in sorted(total.notices.items())))
    print("ends:", ", ".join(f"{name or 'goes on'} {number}" for name, number in sorted(ends.items())))


if __name__ == "__main__":
    sys.exit(main())
