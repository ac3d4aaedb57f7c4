"""The standard set on our own job, quickly: its workers have torch already, but where a plan needs cold ones.

python -m tests.chaos.standard --out out/chaos
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from pycomms.chaos._plans import standard_set
from tests.warm import WarmPython

COLD = ("agent-frozen", "freeze-and-thaw", "freeze-for-good", "starved")
"""Here the agent has to see what becomes of the worker itself: a warm interpreter is a child of it."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.standard", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a folder that is not there yet")
    out: Path = parser.parse_args().out
    others = [plan.name for plan in standard_set() if plan.name not in COLD]
    warm = WarmPython()
    try:
        warm.await_ready()
        codes = [run(out / "warm", others, str(warm.executable)), run(out / "cold", COLD, sys.executable)]
    finally:
        warm.close()
    return max(codes)


def run(out: Path, plans: list[str] | tuple[str, ...], python: str) -> int:
    """``pycomms chaos set`` with these plans; returns its exit code."""
    job = [sys.executable, "-m", "pycomms", "run", "--nproc-per-node=4", "--no-python", python]
    command = [*job, "-m", "pycomms.chaos.workload"]
    own = [sys.executable, "-m", "pycomms", "chaos", "set", "--only", ",".join(plans), "--out", str(out)]
    return subprocess.run([*own, "--", *command], stdin=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
