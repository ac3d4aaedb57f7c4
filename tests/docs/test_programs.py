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


def run(by: By, ranks: int, python: str, script: Path, limit_s: int = LIMIT_S) -> str:
    """What a program has printed that ends well; it runs in its folder."""
    done = subprocess.run(
        [*command(by, ranks, python), str(script)],
        cwd=script.parent,
        env=environment(python),
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.timeout(BUILDING_S + 30)
@pytest.mark.parametrize("program", [pytest.param(one, marks=marks(one), id=str(one)) for one in PROGRAMS])
def test_the_code_of_a_page(program: Program, warm_python: str, tmp_path: Path) -> None:
    reason = missing(program.needs)
    if reason:
        pytest.skip(f"needs {program.needs.value}: {reason}")
    python = sys.executable if program.needs is Needs.CUDA_13 else warm_python  # the emulator comes before torch
    script = tmp_path / "program.py"
    script.write_text(program.text())
    limit_s = BUILDING_S if program.needs is Needs.CUDA_13 else LIMIT_S
    said = run(program.by, program.ranks, python, script, limit_s)
    for words in program.prints:
        assert words in said


@pytest.mark.needs_torch("2.14", "sessions")
def test_the_change_that_survives_failures(warm_python: str, tmp_path: Path) -> None:
    """Of the program of docs/howto/one_host.md it makes one that trains under pycomms run."""
    (change,) = blocks("docs/howto/survive_failures.md", "diff")
    lines = change.splitlines(keepends=True)
    before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    assert before == blocks("docs/howto/one_host.md", "python")[0]
    script = tmp_path / "train.py"
    script.write_text(after.replace("15_000", "6").replace("5_000", "6"))
    assert "step 6: loss" in run(By.RUN, 2, warm_python, script)


def test_no_block_is_left_out() -> None:
    shown = {(name_of(page), number) for page in PAGES for number in range(len(blocks(name_of(page), "python")))}
    tried = [(program.page, number) for program in PROGRAMS for number in program.blocks]
    assert sorted([*tried, *ELSEWHERE]) == sorted(shown)


FIND_A_HANG = "docs/howto/find_a_hang.md"
ATTACHING = pytest.mark.needs_torch("2.14", "flight_recorder.attach()")


@pytest.mark.parametrize(
    "page, starts, verdict, lines",
    [
        pytest.param("docs/flight_recorder.md", ["train.py"], "MISSING_RANK", (13, 17), id="a group of ours"),
        pytest.param(FIND_A_HANG, ["train.py"], "OP_MISMATCH", (13, 15), id="attached", marks=ATTACHING),
        pytest.param(FIND_A_HANG, ["record.py", "train.py"], "OP_MISMATCH", (13, 15), id="as it is", marks=ATTACHING),
    ],
)
def test_jobs_that_hang(
    page: str, starts: list[str], verdict: str, lines: tuple[int, int], warm_python: str, tmp_path: Path
) -> None:
    """The analyzer names the rank and the lines."""
    records = tmp_path / "records"
    job_text, *recording = blocks(page, "python")
    if "record.py" in starts:
        job_text = job_text.replace("flight_recorder.attach()", "")
        (tmp_path / "record.py").write_text(recording[0])
    (tmp_path / "train.py").write_text(job_text)
    job = subprocess.Popen(
        [*command(By.TORCHRUN, 3, warm_python), *starts],
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
        assert verdict in said
        assert all(f"train.py:{line}" in said for line in lines)
    finally:
        job.terminate()
        job.wait(LIMIT_S)
