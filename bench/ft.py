"""How long a job stands when a worker is killed, and when another takes its place.

    python -m bench.ft [--workers 4] [--kills 20] [--step-ms 10] [--megabytes 1] [--spares 1] [--json FILE]

One job under `pycomms run`. Workers are killed with SIGKILL, one at a time, at random moments of a step; each time the
benchmark waits until another has taken its place and trains. All times are of one clock (CLOCK_MONOTONIC):

to next step       from the kill to the first step that all survivors have committed without the dead worker
gap at rejoin      the longest time between two commits of a survivor around the moment that the newcomer comes in
to full strength   from the kill to the first step that all commit together again
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

DEADLINE = 120.0  # s, for anything


@dataclass(frozen=True)
class Line:
    at: float
    slot: int
    pid: int
    what: str
    values: list[str]


class Log:
    """What the workers have written so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.lines: list[Line] = []

    def update(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for text in whole.decode().splitlines():
            at, slot, pid, what, *values = text.split()
            self.lines.append(Line(int(at) / 1e9, int(slot), int(pid), what, values))

    def commits(self, since: float, world: int) -> dict[int, float]:
        """By slot the first commit after a moment, in a group of that size."""
        found: dict[int, float] = {}
        for line in self.lines:
            if line.what == "step" and line.at > since and line.values[1:] == ["1", str(world)]:
                found.setdefault(line.slot, line.at)
        return found

    def pid_of(self, slot: int) -> int:
        return next(line.pid for line in reversed(self.lines) if line.slot == slot)


def wait_for(job: subprocess.Popen[bytes], log: Log, since: float, world: int, members: int) -> dict[int, float]:
    deadline = time.monotonic() + DEADLINE
    while True:
        log.update()
        found = log.commits(since, world)
        if len(found) >= members:
            return found
        if job.poll() is not None:
            raise RuntimeError(f"the job has ended with {job.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"no step of {world} members in {DEADLINE:.0f} s")
        time.sleep(0.002)


def gap(log: Log, slots: set[int], begin: float, end: float) -> float:
    """The longest time between two commits of one of these slots that overlaps [begin, end]."""
    longest = 0.0
    for slot in slots:
        times = [line.at for line in log.lines if line.slot == slot and line.what == "step"]
        for before, after in itertools.pairwise(times):
            if after >= begin and before <= end:
                longest = max(longest, after - before)
    return longest


def trials(arguments: argparse.Namespace, folder: Path) -> dict[str, list[float]]:
    path = folder / "log"
    path.touch()
    command = [sys.executable, "-m", "pycomms", "run", "--nproc-per-node", str(arguments.workers)]
    command += ["--max-restarts", str(arguments.kills + 1), "--spares", str(arguments.spares)]
    command += [str(Path(__file__).with_name("ft_worker.py")), str(path), "--steps", "100000000"]
    command += ["--step-ms", str(arguments.step_ms), "--megabytes", str(arguments.megabytes)]
    draw = random.Random(arguments.seed)
    found: dict[str, list[float]] = {"to next step": [], "gap at rejoin": [], "to full strength": []}
    output = (folder / "output").open("wb")
    job = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, "OMP_NUM_THREADS": "1"})
    log = Log(path)
    workers = arguments.workers
    try:
        wait_for(job, log, 0.0, workers, workers)
        for trial in range(arguments.kills):
            time.sleep(0.2 + draw.random() * arguments.step_ms / 1e3)
            log.update()
            victim = draw.randrange(workers)
            killed = time.monotonic()
            os.kill(log.pid_of(victim), signal.SIGKILL)
            survivors = wait_for(job, log, killed, workers - 1, workers - 1)
            found["to next step"].append(max(survivors.values()) - killed)
            again = wait_for(job, log, max(survivors.values()), workers, workers)
            together = max(again.values())
            found["to full strength"].append(together - killed)
            found["gap at rejoin"].append(gap(log, set(survivors), min(again.values()), together))
            print(f"\rkill {trial + 1} of {arguments.kills}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    except BaseException:
        print((folder / "output").read_text()[-4000:], file=sys.stderr)
        raise
    finally:
        job.send_signal(signal.SIGTERM)
        try:
            job.wait(30)
        except subprocess.TimeoutExpired:
            job.kill()
        output.close()
    return found


def summary(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    return {
        "median [ms]": 1e3 * statistics.median(ordered),
        "p99 [ms]": 1e3 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
        "worst [ms]": 1e3 * ordered[-1],
    }


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument("--megabytes", type=float, default=1.0, help="of parameters")
    parser.add_argument("--spares", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        found = trials(arguments, Path(folder))
    told = {name: summary(times) for name, times in found.items()}
    for name, figures in told.items():
        print(f"{name:18}" + "".join(f"{what:>14} {value:9.1f}" for what, value in figures.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps({"arguments": vars(arguments) | {"json": None}, "times": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
