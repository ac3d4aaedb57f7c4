"""What is left of a job whose controller is killed: nothing."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.chaos.run._runs import ROOT, chaos

LIMIT_S = 60.0
STOPPED = "echo $$ > pid; echo $PYCOMMS_CHAOS > door; kill -KILL $PPID; kill -STOP $$"


def has_ended(pid: int) -> bool:
    """Within the limit."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], LIMIT_S)[0])
    finally:
        os.close(process)


def test_the_job_ends_with_its_controller(tmp_path: Path) -> None:
    """It is stopped, so it does nothing by itself."""
    (tmp_path / "plan.toml").write_text("duration = 600\n")
    options = ("plan.toml", "--out", "run", "--quiet")
    controller = subprocess.Popen(
        [sys.executable, "-m", "pycomms", "chaos", "run", *options, "--", "sh", "-c", STOPPED],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    try:
        assert controller.wait(LIMIT_S) == -signal.SIGKILL
    finally:
        controller.kill()
        controller.wait(LIMIT_S)
    pid = int((tmp_path / "pid").read_text())
    try:
        assert has_ended(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert not Path((tmp_path / "door").read_text().strip()).exists()
    report = chaos(tmp_path, "report", "run")
    assert report.code == 1
    assert "the log has no end: the controller was killed" in report.out
