"""The emulated CUDA's own tests of how CUDA behaves, run on this CUDA: what fails on a real GPU is a fault of the
emulator, and of what was only tested on it.

In a process of its own, a pytest, which notes each result at once (`_recorder`): a test that hangs loses no other.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from ._build import ROOT
from ._children import run_child
from ._recorder import RESULTS
from ._report import AreaReport
from ._setting import Deadline, Setting

_SUITE = "tests/cuda_emulator/tests"


def conformance(setting: Setting, report: AreaReport, deadline: Deadline) -> None:
    cuda = "emulated" if setting.emulated else "real"
    with tempfile.TemporaryDirectory(prefix="pycomms-gpu-") as folder:
        results, output = Path(folder) / "results", Path(folder) / "output"
        # Without our pyproject.toml: it asks for plug-ins that this machine may not have.
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(ROOT)]
        command += ["-p", "no:cacheprovider", "-p", "tests.gpu._recorder", "--conformance", cuda, _SUITE]
        with output.open("w+") as log:
            code = run_child(
                command,
                cwd=ROOT,
                log=log,
                seconds=deadline.left(),
                saying="conformance",
                environment={**os.environ, RESULTS: str(results)},
            )
        _read(results, report)
        if code is None:
            report.out_of_time.append("the rest of the tests")
        elif code not in (0, 1):
            report.failed.append(f"pytest ended with {code}\n{output.read_text()[-2000:]}")


def _read(results: Path, report: AreaReport) -> None:
    begun = ""
    for line in results.read_text().splitlines() if results.is_file() else ():
        said = json.loads(line)
        begun = said["test"] if said["outcome"] == "begun" else ""
        if said["outcome"] == "passed":
            report.passed += 1
        elif said["outcome"] == "skipped":
            report.skipped.append(said["text"])
        elif said["outcome"] == "failed":
            report.failed.append(f"{said['test']}\n{said['text']}")
    if begun:
        report.failed.append(f"{begun}: it did not end")
