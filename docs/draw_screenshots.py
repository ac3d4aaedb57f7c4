"""Draws the screenshots of docs/images: what the reports of the flight recorder and of pycomms chaos look like today.

    python -m docs.draw_screenshots

It needs a Chromium (Debian: apt install chromium), torch 2.14 and half a minute: the job of the second report is run,
of whose four workers one is killed, and then the one that has taken its place. The first is of the job that the tests
look at, and comes out the same each time. Look at both before you commit them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from pycomms.flight_recorder import _html
from pycomms.flight_recorder.analysis import analyze
from tests.flight_recorder._browser import browser, find
from tests.flight_recorder._jobs import missing_rank

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PLAN = ROOT / "pycomms" / "chaos" / "plans" / "flapping.toml"
LIMIT_S = 300.0
END = "<h2>What happened</h2>"
"""Of what is shown: behind it come a hundred lines, and paths of this machine."""


def flight_recorder_report(folder: Path) -> Path:
    report = folder / "flight_recorder.html"
    records = missing_rank()
    _html.write(report, records, analyze(records))
    return report


def chaos_report(folder: Path) -> Path:
    pycomms = [sys.executable, "-m", "pycomms"]
    job = [*pycomms, "run", "--nproc-per-node", "4", "-m", "pycomms.chaos.workload"]
    command = [*pycomms, "chaos", "run", str(PLAN), "--quiet", "--out", str(folder / "run"), "--", *job]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=LIMIT_S, check=True)
    report = folder / "run" / "report.html"
    shown, end, _ = report.read_text().partition(END)
    assert end, f"{report} has no {END}"
    report.write_text(shown)
    return report


def main() -> None:
    program = find()
    if program is None:
        sys.exit("no chromium or chrome on this machine (Debian: apt install chromium)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reports = {
            "flight_recorder_report.png": flight_recorder_report(folder),
            "chaos_report.png": chaos_report(folder),
        }
        with browser(program, folder / "profile") as page:
            for image, report in reports.items():
                page.open(report, width=1280, height=800)
                (IMAGES / image).write_bytes(page.screenshot())


if __name__ == "__main__":
    main()
