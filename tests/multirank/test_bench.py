"""`pycomms bench`, whole: its figures; a rank that is killed, a result that is wrong, Ctrl-C. Nothing stays behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.nccl2_only("compares backends, whatever the others are tested on")

ROOT = Path(__file__).parents[2]
LIMIT_S = 100.0
COMMAND = """
import sys
sys.executable = {python!r}
sys.argv = ["pycomms", *sys.argv[1:]]
{more}
from pycomms.__main__ import main
sys.exit(main())
"""
CASES = ["--ops", "all_reduce", "--sizes", "8,64K", "--ranks", "2"]


class Running:
    """The command. Its ranks are its children: if it runs under a warm interpreter, those who stand for them."""

    def __init__(self, python: str, *words: str, more: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", COMMAND.format(python=python, more=more), "bench", *words],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.deadline = time.monotonic() + LIMIT_S
        self.told = ""

    def await_said(self, words: str) -> None:
        """Of standard error."""
        assert self.process.stderr is not None
        while words not in self.told:
            left = self.deadline - time.monotonic()
            assert left > 0, self.told
            assert select.select([self.process.stderr], [], [], left)[0], self.told
            chunk = os.read(self.process.stderr.fileno(), 4096).decode()
            assert chunk, self.told
            self.told += chunk

    def ranks(self) -> list[int]:
        pid = self.process.pid
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def finish(self) -> tuple[int, str]:
        """Its exit code and standard output."""
        out, err = self.process.communicate(timeout=max(1.0, self.deadline - time.monotonic()))
        self.told += err.decode()
        return self.process.returncode, out.decode()

    def close(self) -> None:
        if self.process.poll() is None:
            for pid in self.ranks():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.kill()
        self.process.communicate(timeout=LIMIT_S)


@contextlib.contextmanager
def running(python: str, *words: str, more: str = "") -> Iterator[Running]:
    command = Running(python, *words, more=more)
    try:
        yield command
    finally:
        command.close()


def folders() -> set[str]:
    return {path.name for path in Path("/dev/shm").glob("pycomms-bench-*")}


def test_figures_of_all_backends(warm_python: str, tmp_path: Path) -> None:
    picture = tmp_path / "figures.svg"
    before = folders()
    with running(warm_python, *CASES, "--seconds", "3", "--json", "-", "--plot", str(picture)) as command:
        code, out = command.finish()
    assert code == 0, command.told
    document: dict[str, Any] = json.loads(out)
    assert document["notes"] == []
    assert {(one["backend"], one["size"]) for one in document["figures"]} == {
        (backend, size) for backend in ("pycomms", "gloo") for size in (8, 65536)
    }
    assert all(one["median_us"] > 0 and one["turns"] >= 3 for one in document["figures"])
    assert "[2/2] all_reduce 64 KiB, 2 ranks" in command.told
    assert "<svg" in picture.read_text()
    assert not folders() - before


def test_a_killed_rank_is_told_and_the_rest_goes_on(warm_python: str) -> None:
    with running(warm_python, *CASES, "--seconds", "5") as command:
        command.await_said("[1/2]")
        killed = command.ranks()
        assert len(killed) == 4
        os.kill(killed[0], signal.SIGKILL)
        code, out = command.finish()
    assert code == 1
    assert "pycomms all_reduce 8 B, 2 ranks: " in out
    assert "rank 0: the process is gone" in out
    assert [line for line in out.splitlines() if line.startswith("64 KiB")], out


def test_a_wrong_result_is_told(warm_python: str) -> None:
    more = 'from pycomms.bench import contestants; contestants._PROGRAM = "tests.multirank._wrong_sums"'
    with running(warm_python, *CASES, "--seconds", "2", more=more) as command:
        code, out = command.finish()
    assert code == 1
    assert "gloo all_reduce 8 B, 2 ranks: rank 0: wrong result" in out
    assert "gloo us" not in out


def test_ctrl_c_leaves_no_process_behind(warm_python: str) -> None:
    before = folders()
    with running(warm_python, *CASES, "--seconds", "8") as command:
        command.await_said("[2/2]")
        ends = [os.pidfd_open(pid) for pid in command.ranks()]
        command.process.send_signal(signal.SIGINT)
        command.process.send_signal(signal.SIGINT)
        code, out = command.finish()
        is_gone = [bool(select.select([end], [], [], 0.0)[0]) for end in ends]
        for end in ends:
            os.close(end)
    assert (code, is_gone) == (130, [True] * 4), command.told
    assert re.search("^ *8 B ", out, re.MULTILINE), out
    assert not folders() - before
