"""python -m tests.upstream: torch's own distributed suite over CPU tensors, on our backend and beside it on gloo.

Every world size is run through gloo's gate: the tests that the suite gives to gloo. From three ranks on, what that gate
skips is tried through MPI's, which adds all_to_all and the tests of groups; gloo itself fails some of those.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .outcome import Outcome, Report, Verdict

_PART = Path(__file__).with_name("part.txt")


def main() -> int:
    options = _parse()
    names = options.tests
    if options.part:
        names = _PART.read_text().split()
    reports = []
    for world in options.world:
        for backend in options.backend:
            reports.append(_session(backend, world, "gloo", names))
            if world >= 3:
                skipped = [outcome.test for outcome in reports[-1].outcomes if outcome.verdict is Verdict.SKIPPED]
                reports.append(_session(backend, world, "mpi", skipped))
    print(table(reports))
    if options.json:
        Path(options.json).write_text(json.dumps([_row(report) for report in reports], indent=1) + "\n")
    ours = [report for report in reports if report.backend == options.backend[0]]
    return 1 if any(report.count(Verdict.FAILED) for report in ours) else 0


def table(reports: list[Report]) -> str:
    lines = [f"{'backend':8} {'ranks':5} {'gate':5}" + "".join(f"{v.value:>10}" for v in Verdict) + f"{'seconds':>10}"]
    for report in reports:
        counts = "".join(f"{report.count(verdict):>10}" for verdict in Verdict)
        lines.append(f"{report.backend:8} {report.world:5} {report.gate:5}{counts}{report.seconds:>10.0f}")
    lines += [
        f"{outcome.verdict.value} on {report.backend} at {report.world} ranks ({report.gate}): {outcome.test}"
        + (f": {outcome.why}" if outcome.verdict is Verdict.EXCEPTED else "")
        for report in reports
        for outcome in report.outcomes
        if outcome.verdict in (Verdict.FAILED, Verdict.EXCEPTED)
    ]
    return "\n".join(lines)


def _session(backend: str, world: int, gate: str, names: list[str]) -> Report:
    """A process of its own: the suite reads its world size when it is imported."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.json"
        command = [sys.executable, "-m", f"{__package__}.session", "--backend", backend, "--world", str(world)]
        print(f"--- {backend}, {world} ranks, the tests of {gate}", flush=True)
        subprocess.run([*command, "--gate", gate, "--json", str(file), *names], timeout=3600.0, check=False)
        found = json.loads(file.read_text())
    outcomes = tuple(Outcome(**{**row, "verdict": Verdict(row["verdict"])}) for row in found["outcomes"])
    return Report(backend, world, gate, outcomes)


def _row(report: Report) -> dict[str, object]:
    return {
        "backend": report.backend,
        "world": report.world,
        "gate": report.gate,
        "seconds": round(report.seconds, 1),
        **{verdict.value: [o.test for o in report.outcomes if o.verdict is verdict] for verdict in Verdict},
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.upstream", description=__doc__)
    parser.add_argument("--backend", nargs="+", default=["nccl2"], help="the first decides the exit status")
    parser.add_argument("--world", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--part", action="store_true", help="only the tests of part.txt, which touch every operation")
    parser.add_argument("--json", metavar="FILE", help="write the names of all tests by verdict to a file")
    parser.add_argument("tests", nargs="*", help="names of tests (default: all)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
