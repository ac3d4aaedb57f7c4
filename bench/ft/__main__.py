"""Command line.

    python -m bench.ft [--contestants pycomms,torchft,...] [--workers 4] [--kills 20] [--json FILE]
    python -m bench.ft --report FILE [FILE ...]

In rounds: in each, one training of each contestant after the other. In each of these, workers are killed (or stopped),
one at a time, at random moments of a step; each time the benchmark waits until another has taken its place and trains.
bench/README.md says what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from bench.environments import default_cache
from bench.ft.jobs import CONTESTANTS, Job, JobError
from bench.ft.log import Kill, Log, Trial, judge, together
from bench.ft.report import render

START_WITHIN_S = 180.0
RECOVER_WITHIN_S = 150.0
SPARE_WITHIN_S = 120.0
PAUSE_S = 0.2
MOMENT_S = 0.1  # the kill comes within as much, which is some steps
LOOK_EVERY_S = 0.005


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ft", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--contestants", type=_names, default=("pycomms",), help=", ".join(CONTESTANTS))
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kills", type=int, default=20, help="of each contestant")
    parser.add_argument("--rounds", type=int, default=4, help="that the kills of each contestant are spread over")
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument(
        "--compute", choices=("burn", "wait"), default="burn", help="whether a step burns its core or waits"
    )
    parser.add_argument("--megabytes", type=float, default=1.0, help="of parameters")
    parser.add_argument("--spares", type=int, default=1, help="of pycomms; a kill waits until they are ready")
    parser.add_argument("--signal", choices=("KILL", "STOP"), default="KILL", help="STOP: nobody continues them")
    parser.add_argument("--seed", type=int, default=1, help="of who is killed when")
    parser.add_argument("--torchft-python", type=Path, help="an interpreter that has it (default: bench setup's)")
    parser.add_argument("--env-dir", type=Path, default=default_cache(), help="cache folder (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--report", type=Path, nargs="+", help="measure nothing: print the table of these files")
    found = parser.parse_args(argv)
    if found.rounds < 1:
        parser.error(f"--rounds {found.rounds}: expected at least 1")
    return found


def _names(text: str) -> tuple[str, ...]:
    chosen = tuple(part.strip() for part in text.split(","))
    unknown = [name for name in chosen if name not in CONTESTANTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(CONTESTANTS)}")
    return chosen


def turns(arguments: argparse.Namespace) -> Iterator[tuple[str, int]]:
    """Each contestant once in each round, and how many kills it has there."""
    for number in range(arguments.rounds):
        for contestant in arguments.contestants:
            yield contestant, (arguments.kills + number) // arguments.rounds


def trials(contestant: str, left: int, dice: random.Random, arguments: argparse.Namespace) -> Iterator[Trial]:
    """In one job; a job that cannot go on is a trial that has failed, and the next is begun."""
    while left:
        with tempfile.TemporaryDirectory(prefix="bench-ft-") as folder:
            job = CONTESTANTS[contestant](Path(folder), arguments)
            try:
                for trial in _of_one_job(contestant, job, dice, left):
                    left -= 1
                    yield trial
            except JobError as err:
                left -= 1
                yield Trial(contestant=contestant, failure=str(err))
            finally:
                job.close()


def _of_one_job(contestant: str, job: Job, dice: random.Random, count: int) -> Iterator[Trial]:
    job.start()
    log = Log(job.log)
    world = job.arguments.workers
    await_(job, log, START_WITHIN_S, "all workers train", lambda: together(log.lines, begun(world)) or None)
    for _ in range(count):
        await_(job, log, SPARE_WITHIN_S, "a spare is ready", lambda: job.spare_is_ready() or None)
        time.sleep(PAUSE_S + dice.random() * MOMENT_S)
        log.update()
        pids = log.pids()
        slot = dice.randrange(world)
        kill = Kill(at=time.monotonic(), slot=slot, pids=pids)
        os.kill(pids[slot], signal.Signals[f"SIG{job.arguments.signal}"])
        yield await_(job, log, RECOVER_WITHIN_S, "all train again", partial(judge, contestant, log.lines, kill))
        log.forget(kill)


def begun(world: int) -> Kill:
    """As if the first worker had been killed at the beginning of time, and all there are have come since."""
    return Kill(at=0.0, slot=0, pids=dict.fromkeys(range(world), 0))


def await_(job: Job, log: Log, within: float, what: str, found: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + within
    while (result := found()) is None:
        if time.monotonic() > deadline:
            raise JobError(f"not within {within:.0f} s: {what}")
        time.sleep(LOOK_EVERY_S)
        job.tend()
        log.update()
    return result


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    found: list[Trial] = []
    dice = {contestant: random.Random(arguments.seed) for contestant in arguments.contestants}
    try:
        for contestant, kills in turns(arguments):
            for trial in trials(contestant, kills, dice[contestant], arguments):
                found.append(trial)
                number = sum(one.contestant == contestant for one in found)
                text = trial.failure or f"{1e3 * trial.to_next_step:.1f} ms, all in {trial.to_full_strength:.1f} s"
                print(f"{contestant}, kill {number}: {text}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: what follows is what was measured so far", file=sys.stderr)
    shown = ("workers", "rounds", "step_ms", "compute", "megabytes", "spares", "seed")
    return {
        "format": 1,
        "started": started,
        "machine": {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
        "arguments": {name: getattr(arguments, name) for name in shown},
        "trials": [asdict(trial) for trial in found],
    }


def main(argv: Sequence[str]) -> int:
    arguments = parse_arguments(argv)
    if arguments.report:
        documents = [json.loads(path.read_text()) for path in arguments.report]
    else:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends in order: no worker stays behind
        documents = [measure(arguments)]
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(documents[0]) + "\n")
    print("\n".join(render(documents)))
    return 0 if any(not trial["failure"] for document in documents for trial in document["trials"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
