"""`python -m tests.gpu`, the program for a machine with a GPU, on the emulated CUDA: so it works when it is needed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cuda_emulator import fits_torch
from tests.gpu._report import ExitCode

_COMMAND = [sys.executable, "-m", "tests.gpu", "--no-build"]
_EMULATED = [*_COMMAND, "--emulated", "--quick"]
_PATIENCE_S = 100.0
_GRACE_S = 10.0
_AREAS = ("contract", "blocks", "groups", "capture", "faults", "windows", "speed", "conformance")

on_the_emulator = pytest.mark.skipif(not fits_torch(), reason="the emulator needs a torch for CUDA 13")


@contextmanager
def _started(*command: str) -> Iterator[subprocess.Popen[str]]:
    """In a session of its own, by which its processes are known."""
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.communicate(timeout=_PATIENCE_S)


def _all_end(session: int) -> bool:
    """Whether its processes are gone soon after the first one: the fork server sees its end and follows."""
    for pid in _of_session(session):
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([process], [], [], _GRACE_S)[0]:
                return False
        finally:
            os.close(process)
    return True


def _of_session(session: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == session:
            found.append(int(stat.parent.name))
    return found


@on_the_emulator
def test_all_areas_pass(tmp_path: Path) -> None:
    result = tmp_path / "gpu.json"
    with _started(*_EMULATED, "--json", str(result)) as child:
        said, _ = child.communicate(timeout=_PATIENCE_S)
    assert child.returncode == ExitCode.PASSED, said
    found = json.loads(result.read_text())
    assert found["machine"]["worlds"] == [1, 2]
    areas = {area["name"]: area for area in found["areas"]}
    for name in _AREAS:
        assert areas[name]["passed"] > 0, said
        assert areas[name]["failed"] == 0, said
    assert "ours / theirs" in said
    assert _all_end(child.pid)


@on_the_emulator
def test_ctrl_c_ends_all_processes_and_tells_what_there_is() -> None:
    with _started(*_EMULATED, "--areas", "blocks", "contract") as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith("contract"):
                child.send_signal(signal.SIGINT)
                break
        said, _ = child.communicate(timeout=_PATIENCE_S)
    assert child.returncode == ExitCode.INTERRUPTED, said
    assert "interrupted" in said
    assert "blocks" in said
    assert _all_end(child.pid)


def test_without_a_gpu_it_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # nor with one that may not be seen
    with _started(*_COMMAND) as child:
        said, _ = child.communicate(timeout=_PATIENCE_S)
    assert child.returncode == ExitCode.NO_GPU, said
    assert said.count("\n") == 1, said
    assert "no GPU" in said
