"""What `make demo` runs, on this machine's CPUs: a training that loses a worker, and one beside gloo.

First examples/lose_a_worker.py: a worker is killed, the others go on, and the flight recorder says who died. Then
torchrun with examples/compare_backends.py: the same training over our backend and over gloo, side by side. Fails if a
model did not learn, if the two backends disagree about any step's loss, or if losing the worker cost accuracy or more
than a second, or was explained wrongly.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lose_a_worker import Loss, lose_a_worker

from pycomms import _C

LOSS_TOLERANCE = 1e-6
LIMIT_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Comparison:
    ours: dict[str, Any]  # train_ddp.Summary as JSON, and seconds_alone
    gloo: dict[str, Any]
    seconds: float  # the whole run, start of the processes included

    def largest_loss_difference(self) -> float:
        return max(abs(float(a) - float(b)) for a, b in zip(self.ours["losses"], self.gloo["losses"], strict=True))

    def complaint(self) -> str | None:
        """What went wrong, or None."""
        for s in (self.ours, self.gloo):
            if s["test_accuracy"] < s["target_accuracy"]:
                return f"{s['backend']}: test accuracy {s['test_accuracy']:.1%} is below {s['target_accuracy']:.0%}"
        if not self.largest_loss_difference() <= LOSS_TOLERANCE:
            return f"the losses differ by up to {self.largest_loss_difference():.2g}, more than {LOSS_TOLERANCE:g}"
        return None

    def rows(self) -> list[tuple[str, str, str]]:
        def both(label: str, show: Any) -> tuple[str, str, str]:
            return label, show(self.ours), show(self.gloo)

        return [
            both("test accuracy", lambda s: f"{s['test_accuracy']:.1%}"),
            both("training time", lambda s: f"{s['seconds']:.2f} s"),
            both("  in gradient all_reduces, waits included", lambda s: f"{_inside(s):.2f} s"),
            both("one call after training, median of many", lambda s: f"{1e6 * s['seconds_alone']:,.0f} us"),
            both("gradients reduced per rank", lambda s: f"{s['in_collectives']['bytes'] / 2**20:.0f} MiB"),
            both("steps", lambda s: f"{s['steps']}"),
        ]

    def closing(self) -> str:
        training = _inside(self.gloo) / _inside(self.ours)
        after = self.gloo["seconds_alone"] / self.ours["seconds_alone"]
        return (
            f"The losses agree at each of {self.ours['steps']} steps (largest difference "
            f"{self.largest_loss_difference():.1g}).\n"
            f"Time in all_reduce, gloo / nccl2: {training:.1f} in training, waits for other ranks included; "
            f"{after:.1f} for calls with nothing in between.\n"
            f"{self.ours['world_size']} ranks shared {os.cpu_count()} cores with whatever else this machine did. "
            f"The whole run took {self.seconds:.0f} s."
        )


def _inside(summary: dict[str, Any]) -> float:
    return float(summary["in_collectives"]["seconds"])


def compare(*, ranks: int, epochs: int, quiet: bool) -> Comparison:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "comparison.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        command += [str(Path(__file__).with_name("compare_backends.py")), "--out", str(out), "--epochs", str(epochs)]
        command += ["--quiet"] if quiet else []
        # One thread per rank, as torchrun would choose itself, but without its warning.
        subprocess.run(command, check=True, timeout=LIMIT_SECONDS, env={**os.environ, "OMP_NUM_THREADS": "1"})
        ours, gloo = json.loads(out.read_text())
    return Comparison(ours=ours, gloo=gloo, seconds=time.monotonic() - begin)


def show(comparison: Comparison) -> None:
    from rich.console import Console
    from rich.table import Table

    ranks = comparison.ours["world_size"]
    table = Table(title=f"{ranks} ranks, scikit-learn's digits", title_justify="left")
    table.add_column("")
    table.add_column("nccl2 (pycomms)", justify="right")
    table.add_column("gloo", justify="right")
    for row in comparison.rows():
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print(comparison.closing(), highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=20, help="of the training beside gloo")
    parser.add_argument("--steps", type=int, default=1000, help="of the training that loses a worker")
    parser.add_argument("--json", action="store_true", help="print what both have come to as JSON and nothing else")
    args = parser.parse_args()

    def say(*lines: str) -> None:
        if not args.json:
            print(*lines, sep="\n", flush=True)

    say(
        f"{args.ranks} processes on {os.cpu_count()} cores train a network on scikit-learn's digits; "
        "they take some seconds to start."
    )
    loss: Loss | None = None
    if _C.can_regroup:
        say("", "1. Undisturbed, then again: a worker is killed in the middle of a step.")
        loss = lose_a_worker(ranks=args.ranks, steps=args.steps, quiet=args.json)
        say("", *loss.lines())
    else:
        say("", "1. A worker is killed: not with this torch. Groups change their size with torch 2.14 and newer.")
    say("", "2. Over pycomms and over gloo, taking turns.")
    comparison = compare(ranks=args.ranks, epochs=args.epochs, quiet=args.json)
    if args.json:
        print(json.dumps({"comparison": asdict(comparison), "loss": asdict(loss) if loss else None}))
    else:
        show(comparison)
    complaints = [one.complaint() for one in (loss, comparison) if one]
    for complaint in filter(None, complaints):
        print(f"demo: {complaint}", file=sys.stderr)
    return 1 if any(complaints) else 0


if __name__ == "__main__":
    sys.exit(main())
