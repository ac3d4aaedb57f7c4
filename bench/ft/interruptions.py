"""A coordinator that is killed and comes back, and how far away it is.

    python -m bench.ft.interruptions [--workers 4] [--kills 20]

`stall` is the longest time between two commits of one worker in the two seconds from a kill of the coordinator on,
`otherwise` in the two before. No worker may end. `round trip` is a message of a worker to its agent, from there to the
coordinator, and an answer the same way.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.contestants.base import environment
from bench.ft.__main__ import await_, begun
from bench.ft.jobs import Ours
from bench.ft.log import Kill, Log, gap, together
from bench.ft.report import figure

WATCHED_S = 2.0
ECHO_WITHIN_S = 120.0


def coordinator_of(agent: int) -> int | None:
    for child in Path(f"/proc/{agent}/task/{agent}/children").read_text().split():
        if b"coordinator" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
            return int(child)
    return None


def stalls(arguments: argparse.Namespace) -> None:
    dice = random.Random(arguments.seed)
    stall, otherwise, died = [], [], 0
    with tempfile.TemporaryDirectory(prefix="bench-ft-") as folder:
        job = Ours(Path(folder), arguments)
        try:
            job.start()
            log = Log(job.log)
            await_(job, log, 180.0, "all workers train", lambda: together(log.lines, begun(arguments.workers)) or None)
            agent = job.processes[0].pid
            for _ in range(arguments.kills):
                time.sleep(WATCHED_S + dice.random() * 0.1)
                log.update()
                pids = log.pids()
                victim = await_(job, log, 60.0, "a coordinator", lambda: coordinator_of(agent))
                now = time.monotonic()
                os.kill(victim, signal.SIGKILL)
                time.sleep(WATCHED_S)
                log.update()
                everybody = Kill(at=now, slot=-1, pids={-1: 0, **pids})
                stall.append(gap(log.lines, everybody, now, now + WATCHED_S))
                otherwise.append(gap(log.lines, everybody, now - WATCHED_S, now))
                died += sum(pids[slot] != pid for slot, pid in log.pids().items())
        finally:
            job.close()
    print(f"stall        {figure(stall)} ms (median / 99th percentile / worst of {len(stall)}); {died} workers ended")
    print(f"otherwise    {figure(otherwise)} ms")


def round_trips(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-ft-") as folder:
        result = Path(folder) / "result"
        command = [sys.executable, "-m", "pycomms", "run", "-m", "bench.ft.workers.echo", str(result), str(count)]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=ECHO_WITHIN_S, check=False
        )
        if not result.exists():
            raise SystemExit(done.stdout + done.stderr)
        print(f"round trip   {figure(json.loads(result.read_text())[count // 10 :])} ms, nothing else running")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ft.interruptions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument("--compute", choices=("burn", "wait"), default="burn")
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(argv, argparse.Namespace(spares=0))
    round_trips(2000)
    stalls(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
