"""Takes the screenshot of the report that the documentation shows:

    python -m tests.flight_recorder.screenshot docs/images/flight_recorder_report.png

Needs a Chromium. The job is the one that the tests look at: a rank that skips an operation, and whom that stops.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pycomms.flight_recorder import _html
from pycomms.flight_recorder.analysis import analyze

from ._browser import browser, find
from ._jobs import missing_rank


def main(output: Path, *, dark: bool = False) -> None:
    program = find()
    if program is None:
        sys.exit("no chromium or chrome on this machine (Debian: apt install chromium)")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.html"
        records = missing_rank()
        _html.write(report, records, analyze(records))
        with browser(program, Path(folder) / "profile") as page:
            page.open(report, width=1280, height=800, dark=dark)
            output.parent.mkdir(parents=True, exist_ok=True)
            output.write_bytes(page.screenshot())


if __name__ == "__main__":
    main(Path(sys.argv[1]), dark="--dark" in sys.argv)
