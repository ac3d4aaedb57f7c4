"""Command line.

    python -m bench.recovery [--trials 20] [--ranks 4,8] [--resident 2GiB] [--json out.json]
    python -m bench.recovery --report out.json

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
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench.contestants.base import environment
from bench.recovery.jobs import InPlace, Job, Restarted
from bench.recovery.processes import JobError, Processes
from bench.recovery.report import render
from bench.recovery.trials import Section, Setup, Trial
from pycomms.bench.protocol import Hub

CONTESTANTS = ("nccl2", "gloo", "torchrun")
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.recovery", description=__doc__.partition("\n")[0])
    parser.add_argument("--contestants", type=_names(CONTESTANTS), default=CONTESTANTS, help=", ".join(CONTESTANTS))
    parser.add_argument(
        "--sections", type=_names([s.value for s in Section]), default=("kill", "join"), help="kill, join"
    )
    parser.add_argument("--ranks", type=_ints, default=(4,), help="sizes of the job (default: 4)")
    parser.add_argument("--ours", type=_ints, default=(8,), help="sizes that only nccl2 is tried at (default: 8)")
    parser.add_argument("--resident", type=_size, default=0, help="bytes that each rank has touched: 2GiB")
    parser.add_argument("--trials", type=int, default=20, help="of each contestant and size")
    parser.add_argument("--seed", type=int, default=1, help="of who is killed when")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    parser.add_argument("--report", type=Path, help="measure nothing: print the tables of this file")
    return parser.parse_args(argv)


def _names(known: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(part.strip() for part in text.split(","))
        unknown = [name for name in chosen if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"no {', '.join(unknown)}; there are {', '.join(known)}")
        return chosen

    return parse


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _size(text: str) -> int:
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)


class Jobs:
    """Makes jobs, each with a log of its own."""

    def __init__(self, hub: Hub, folder: Path, args: argparse.Namespace) -> None:
        self._hub = hub
        self._folder = folder
        self._args = args
        self._made = 0

    def make(self, contestant: str, world: int) -> Job:
        self._made += 1
        name = f"{contestant}-{world}-{self._made}"
        processes = Processes(name, self._hub, self._folder / f"{name}.log", self._environment(name))
        if contestant == "torchrun":
            return Restarted(world, processes, restarts=self._args.trials)
        return InPlace(contestant, world, self._args.resident, processes)

    def _environment(self, job: str) -> dict[str, str]:
        return environment(
            OMP_NUM_THREADS="1",
            GLOO_SOCKET_IFNAME="lo",
            TORCH_CPP_LOG_LEVEL="ERROR",
            # Without it torchrun's workers meet the keys of their predecessors, and no restart succeeds.
            TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
            BENCH_JOB=job,
            BENCH_SOCKET=str(self._hub.path),
            BENCH_RESIDENT=str(self._args.resident),
        )


def measure(args: argparse.Namespace) -> dict[str, Any]:
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    trials: list[Trial] = []
    setups = [(world, args.contestants) for world in args.ranks]
    setups += [(world, ["nccl2"]) for world in args.ours if "nccl2" in args.contestants and world not in args.ranks]
    with tempfile.TemporaryDirectory(prefix="bench-recovery-") as name:
        hub = Hub(Path(name) / "hub")
        jobs = Jobs(hub, Path(name), args)
        try:
            for world, contestants in setups:
                for trial in take_turns(world, contestants, jobs, args):
                    trials.append(trial)
                    say(trial)
        except KeyboardInterrupt:
            print("interrupted: what follows is what was measured so far", file=sys.stderr)
        finally:
            hub.close()
    return {
        "format": 1,
        "started": started,
        "machine": {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
        "trials": [trial.to_json() for trial in trials],
    }


def take_turns(world: int, contestants: Sequence[str], jobs: Jobs, args: argparse.Namespace) -> Iterator[Trial]:
    """Trials of one size, the contestants one after the other, so that all see the same weather."""
    dice = random.Random(args.seed)
    running: dict[str, Job] = {}
    try:
        for number in range(args.trials):
            for contestant in contestants:
                setup = {"contestant": contestant, "ranks": world, "resident": args.resident}
                section = Section.KILL
                try:
                    if contestant not in running:
                        running[contestant] = jobs.make(contestant, world)
                        running[contestant].start()
                    for section, stages in running[contestant].recover(dice):
                        if section.value in args.sections:
                            yield Trial(setup=Setup(section=section, **setup), number=number, stages_ms=stages)
                except JobError as err:
                    running.pop(contestant).close()
                    yield Trial(setup=Setup(section=section, **setup), number=number, stages_ms={}, failure=str(err))
    finally:
        for job in running.values():
            job.close()


def say(trial: Trial) -> None:
    setup = trial.setup
    stages = ", ".join(f"{stage.value} {ms:.2f}" for stage, ms in trial.stages_ms.items())
    result = f"{trial.total_ms:.2f} ms ({stages})" if not trial.failure else f"failed: {trial.failure}"
    text = f"{setup.section.value} {trial.number + 1}: {setup.contestant}, {setup.ranks} ranks: {result}"
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    args = parse_arguments(argv)
    if args.report is not None:
        print("\n".join(render(json.loads(args.report.read_text()))))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends in order: no rank stays behind
    began = time.monotonic()
    document = {**measure(args), "seconds": round(time.monotonic() - began, 1)}
    if args.json is not None:
        args.json.write_text(json.dumps(document) + "\n")
    print("\n".join(render(document)))
    return 0 if any(not trial["failure"] for trial in document["trials"]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
