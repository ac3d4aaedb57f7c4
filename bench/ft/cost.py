"""What a Session adds to a step when nothing fails.

    python -m bench.ft.cost [--workers 2] [--step-ms 10] [--compute wait]

In one job, blocks of steps with the session and without it take turns, over the same group; a step computes, sums 1 MB
of gradients and moves the optimizer. The figure is the median over the blocks of the difference between two neighbours.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.contestants.base import environment

WITHIN_S = 280.0


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ft.cost", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument("--compute", choices=("burn", "wait"), default="wait")
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--blocks", type=int, default=40)
    parser.add_argument("--steps", type=int, default=50, help="of a block")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bench-ft-") as folder:
        result = Path(folder) / "result"
        command = [
            *(sys.executable, "-m", "pycomms", "run", "--nproc-per-node", str(arguments.workers)),
            *("-m", "bench.ft.workers.costing", str(result), "--step-ms", str(arguments.step_ms)),
            *("--megabytes", str(arguments.megabytes), "--compute", arguments.compute),
            *("--blocks", str(arguments.blocks), "--steps", str(arguments.steps)),
        ]
        where = environment(OMP_NUM_THREADS="1")
        done = subprocess.run(command, env=where, capture_output=True, text=True, timeout=WITHIN_S, check=False)
        if not result.exists():
            print(done.stdout + done.stderr, file=sys.stderr)
            return 1
        times = json.loads(result.read_text())
    plain = statistics.median(times["plain"])
    more = statistics.median(one - other for one, other in zip(times["session"], times["plain"], strict=True))
    setup = f"{arguments.workers} workers, steps of {arguments.step_ms:g} ms ({arguments.compute})"
    print(f"{setup}: {1e3 * plain:.3f} ms without, {1e6 * more:+.0f} us with a session: {100 * more / plain:+.2f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
