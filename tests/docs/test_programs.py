"""Every block of Python in the README and in docs/ runs, and does what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch.netns import reason_unavailable
from tests.cuda_emulator import fits_torch
from tests.docs._blocks import PAGES, ROOT, blocks, name_of
from tests.docs._programs import ELSEWHERE, PROGRAMS, By, Needs, Program

LIMIT_S = 90
BUILDING_S = 400
"""The emulated libnccl is compiled where it is missing."""


def marks(program: Program) -> list[pytest.MarkDecorator]:
    needs_newer = program.needs is Needs.TORCH_2_14
    return [pytest.mark.needs_torch("2.14", f"what {program.page} shows")] if needs_newer else []


def missing(needs: Needs) -> str:
    """Why a program cannot run here; empty: it can."""
    if needs is Needs.CUDA_13 and not fits_torch():
        return "this torch is not built for CUDA 13"
    return (reason_unavailable() or "") if needs is Needs.HOSTS else ""


def command(by: By, ranks: int, python: str) -> list[str]:
    if by is By.TORCHRUN:
        return [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    if by is By.RUN:
        return [sys.executable, "-m", "pycomms", "run", f"--nproc-per-node={ranks}", "--no-python", python]
    return [sys.executable]


def environment(python: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": python, "PYTHONPATH": str(ROOT)}


@pytest.mark.timeout(BUILDING_S + 30)
@pytest.mark.parametrize("program", [pytest.param(one, marks=marks(one), id=str(one)) for one in PROGRAMS])
def test_the_code_of_a_page(program: Program, warm_python: str, tmp_path: Path) -> None:
    reason = missing(program.needs)
    if reason:
        pytest.skip(f"needs {program.needs.value}: {reason}")
    python = sys.executable if program.needs is Needs.CUDA_13 else warm_python  # the emulator comes before torch
    script = tmp_path / "program.py"
    script.write_text(program.text())
    done = subprocess.run(
        [*command(program.by, program.ranks, python), str(script)],
        cwd=tmp_path,
        env=environment(python),
        capture_output=True,
        text=True,
        timeout=BUILDING_S if program.needs is Needs.CUDA_13 else LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    for words in program.prints:
        assert words in done.stdout


def test_no_block_is_left_out() -> None:
    shown = {(name_of(page), number) for page in PAGES for number in range(len(blocks(name_of(page), "python")))}
    run = [(program.page, number) for program in PROGRAMS for number in program.blocks]
    assert sorted([*run, *ELSEWHERE]) == sorted(shown)


def test_the_job_that_hangs(warm_python: str, tmp_path: Path) -> None:
    """docs/flight_recorder.md begins with it: the analyzer names the rank and the line."""
    script, records = tmp_path / "train.py", tmp_path / "records"
    script.write_text(blocks("docs/flight_recorder.md", "python")[0])
    job = subprocess.Popen(
        [*command(By.TORCHRUN, 3, warm_python), str(script)],
        cwd=tmp_path,
        env={**environment(warm_python), "PYCOMMS_FR_DIR": str(records)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + LIMIT_S
        said = ""
        while "root ranks [2]" not in said:
            assert time.monotonic() < deadline, said
            analyze = [sys.executable, "-m", "pycomms", "fr", "analyze", str(records)]
            done = subprocess.run(analyze, capture_output=True, text=True, timeout=LIMIT_S, check=False)
            said = done.stdout + done.stderr
        assert "MISSING_RANK" in said
        assert "train.py:13" in said
        assert "train.py:17" in said
    finally:
        job.terminate()
        job.wait(LIMIT_S)
