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
_QUICK = "test_streams.py"
_THROUGH = (0, 1)  # exit codes of a pytest that has run all tests
_MOST_STARTS = 6


def conformance(setting: Setting, report: AreaReport, deadline: Deadline) -> None:
    with tempfile.TemporaryDirectory(prefix="pycomms-gpu-") as folder:
        results = Path(folder) / "results"
        results.touch()
        for _ in range(_MOST_STARTS):
            before = results.stat().st_size
            with (Path(folder) / "output").open("w+") as log:
                code = run_child(
                    _command(setting, _begun(results)),
                    cwd=ROOT,
                    log=log,
                    seconds=deadline.left(),
                    saying="conformance",
                    environment={**os.environ, RESULTS: str(results)},
                )
                log.seek(0)
                said = log.read()
            # It ends early when a test has killed the process or broken the device: the rest can do without that.
            if code in _THROUGH or code is None or results.stat().st_size == before:
                break
        _read(results, report)
    if code is None:
        report.out_of_time.append("the rest of the tests")
    elif code not in _THROUGH:
        report.failed.append(f"pytest ended with {code}, and some tests were not run\n{said[-2000:]}")


def _command(setting: Setting, done: list[str]) -> list[str]:
    # Without our pyproject.toml: it asks for plug-ins that this machine may not have.
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(ROOT), "-p", "no:cacheprovider"]
    command += ["-p", "tests.gpu._recorder", "--conformance", "emulated" if setting.emulated else "real"]
    for test in done:
        command += ["--deselect", test]
    return [*command, f"{_SUITE}/{_QUICK}" if setting.quick else _SUITE]


def _begun(results: Path) -> list[str]:
    return [said["test"] for said in map(json.loads, results.read_text().splitlines()) if said["outcome"] == "begun"]


def _read(results: Path, report: AreaReport) -> None:
    last: dict[str, dict[str, str]] = {}
    for said in map(json.loads, results.read_text().splitlines()):
        last[said["test"]] = said
    for test, said in last.items():
        if said["outcome"] == "passed":
            report.passed += 1
        elif said["outcome"] == "skipped":
            report.skipped.append(said["text"].removeprefix("Skipped: "))
        elif said["outcome"] == "failed":
            report.failed.append(f"{test}\n{said['text']}")
        else:
            report.failed.append(f"{test}: it did not end")
