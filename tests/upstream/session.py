"""python -m tests.upstream.session: the suite on one backend at one world size, in this process."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from torch.torch_version import TorchVersion

from . import runner, suite
from .outcome import Report, Verdict

_EXCEPTIONS = Path(__file__).with_name("exceptions.json")


def main() -> int:
    options = _parse()
    cases = suite.load(options.backend, options.world, options.gate, options.timeout)
    exceptions = _exceptions() if options.backend == "nccl2" else {}
    names = options.tests or runner.names_of(cases)
    outcomes = []
    for number, name in enumerate(names, 1):
        outcome = runner.run_one(cases, name).judged(exceptions)
        outcomes.append(outcome)
        print(f"[{number}/{len(names)}] {outcome.verdict.value:8} {outcome.seconds:6.1f} s  {name}", flush=True)
        if outcome.verdict is Verdict.FAILED:
            print(outcome.why, flush=True)
    report = Report(options.backend, options.world, options.gate, tuple(outcomes))
    if options.json:
        Path(options.json).write_text(json.dumps(asdict(report), indent=1) + "\n")
    return 1 if report.count(Verdict.FAILED) else 0


def _exceptions() -> dict[str, str]:
    """Why it is right that a test fails with this torch, by its name."""
    known = json.loads(_EXCEPTIONS.read_text())
    here = TorchVersion(torch.__version__)
    return {test: one["why"] for test, one in known.items() if "before" not in one or here < one["before"]}


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.upstream.session", description=__doc__)
    parser.add_argument("--backend", default="nccl2")
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--gate", default="gloo", choices=["gloo", "mpi"], help="whose tests to run: see suite.py")
    parser.add_argument("--timeout", type=int, default=60, help="seconds per test")
    parser.add_argument("--json", metavar="FILE", help="write every outcome to a file")
    parser.add_argument("tests", nargs="*", help="names of tests (default: all)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
