"""The first half of `make demo`: one of the workers is killed while it trains, and the training goes on.

    python examples/lose_a_worker.py        # needs torch 2.14

Runs examples/elastic.py under `pycomms run` twice: undisturbed, and with a worker that kills itself in the middle of a
step. Shows what the second run prints while it happens, then the accuracy of both runs, and what the flight recorder
says of the dead worker, from the records that all have left.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ACCURACY_TOLERANCE = 0.02
"""A run with three workers for a while has seen other batches: 7 of the 360 images that were held back."""
AT_ONCE_SECONDS = 1.0
LIMIT_SECONDS = 300


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What a run with a killed worker has come to, beside an undisturbed one."""

    killed: int
    accuracy: float
    undisturbed: float
    recoveries: list[dict[str, Any]]  # ft.Recovery as JSON, without the start
    explained: str  # by `pycomms fr analyze`
    died: list[int]  # the ranks that it names

    def complaint(self) -> str | None:
        """What went wrong, or None."""
        if not self.recoveries:
            return "no worker was lost"
        if (seconds := max(one["seconds"] for one in self.recoveries)) > AT_ONCE_SECONDS:
            return f"the others went on after {seconds:.2f} s, more than {AT_ONCE_SECONDS:g}"
        if self.died != [self.killed]:
            return f"rank {self.killed} was killed, and the flight recorder names {self.died}: {self.explained}"
        if abs(self.accuracy - self.undisturbed) > ACCURACY_TOLERANCE:
            return f"test accuracy {self.accuracy:.1%}, and {self.undisturbed:.1%} of the undisturbed run"
        return None

    def lines(self) -> list[str]:
        return [
            f"Test accuracy {self.accuracy:.1%}, of the undisturbed run {self.undisturbed:.1%}.",
            "What the records in shared memory say of it, by `pycomms fr analyze`:",
            *(f"  {line}" for line in self.explained.splitlines()),
        ]


def lose_a_worker(*, ranks: int, steps: int, quiet: bool) -> Loss:
    """Two trainings with so many workers: the last is killed half-way in the second one."""
    killed = ranks - 1
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records"
        undisturbed = _train(ranks, 0, steps, Path(folder) / "undisturbed.json", quiet=True)
        kill = ["--kill", f"{killed}@{steps // 2}"]
        disturbed = _train(ranks, 1, steps, Path(folder) / "disturbed.json", *kill, quiet=quiet, records=records)
        found = json.loads(_analyze("--json", str(records)))
        explained = _analyze(str(records))
    died = {*found["root_ranks"], *(one["rank"] for one in found.get("replaced", ()))}
    return Loss(
        killed=killed,
        accuracy=disturbed["accuracy"],
        undisturbed=undisturbed["accuracy"],
        recoveries=disturbed["recoveries"][1:],
        explained=explained.partition("\n\n")[0],  # its warnings come behind an empty line
        died=sorted(died),
    )


def _analyze(*arguments: str) -> str:
    """Whatever its exit code: where another worker has taken the place of the dead one, there is no fault any more."""
    command = [sys.executable, "-m", "pycomms", "fr", "analyze", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False).stdout


def _train(
    ranks: int, spares: int, steps: int, out: Path, *arguments: str, quiet: bool, records: Path | None = None
) -> dict[str, Any]:
    """The summary of one run of elastic.py. Unless quiet, what it prints is shown while it runs."""
    launcher = [sys.executable, "-m", "pycomms", "run", "--nproc-per-node", str(ranks)]
    launcher += ["--spares", str(spares)]
    script = [str(Path(__file__).with_name("elastic.py")), "--steps", str(steps), "--out", str(out), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if records:
        environment["PYCOMMS_FR_DIR"] = str(records)
    done = subprocess.run(
        [*launcher, *script],
        env=environment,
        stdout=subprocess.PIPE if quiet else None,
        stderr=subprocess.PIPE if quiet else subprocess.STDOUT,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"pycomms run: exit code {done.returncode}\n{done.stderr or ''}")
    return dict(json.loads(out.read_text()))


def main() -> int:
    loss = lose_a_worker(ranks=4, steps=1000, quiet=False)
    print("\n".join(loss.lines()))
    if complaint := loss.complaint():
        print(f"lose_a_worker: {complaint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
