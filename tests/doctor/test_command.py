"""The command, whole: on this machine, with a torch that is broken or hangs, and with a variable that is wrong."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pycomms.doctor import _command, limits
from pycomms.doctor.capabilities import CAPABILITIES

from ._given import told

ROOT = Path(__file__).parents[2]
TIME = ["--timeout", "45"]
"""Where other tests run beside this."""
LIMIT_S = 115


COMMAND = [sys.executable, "-m", "pycomms", "doctor"]


def surroundings(path: Path | None) -> dict[str, str]:
    """path: of modules that come before ours."""
    folders = [str(one) for one in (path, ROOT) if one]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}


def run(*arguments: str, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**surroundings(path), **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stderr == ""
    said: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if said["well"] else 1)
    return said


def test_as_text() -> None:
    done = run(*TIME)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for words in ("libnccl", "CPU tensors", "/dev/shm", "ptrace", "address", "median", "rank 1 was killed"):
        assert words in done.stdout
    assert done.stdout.splitlines()[-1].startswith("all is well")


def test_as_json(tmp_path: Path) -> None:
    said = report(run("--json", *TIME, TMPDIR=str(tmp_path)))
    assert said["well"], said["problems"]
    assert [*said["capabilities"]] == [one.name for one in CAPABILITIES]
    assert said["capabilities"]["cpu_tensors"] == {"available": True, "missing": [], "why_not": ""}
    assert [*said["sections"]] == [
        *("versions", "nccl", "gpu", "capabilities", "limits", "environment", "network", "self-check")
    ]
    check = {one["name"]: one["value"] for one in said["sections"]["self-check"]}
    assert check["all_reduce of 8 B"]["median_us"] > 0
    assert check["death"]["ms"] > 0
    assert not [*tmp_path.iterdir()]


def test_a_torch_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise OSError('libcudart.so.13: cannot open shared object file')\n")
    said = report(run("--json", path=tmp_path))
    (problem,) = said["problems"]
    assert problem["name"] == "torch"
    assert "libcudart.so.13" in problem["text"]
    assert said["torch"] == ""
    assert {one["available"] for one in said["capabilities"].values()} == {None}
    assert "torch and the extension" in said["sections"]["self-check"][0]["text"]


def test_a_torch_that_hangs(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import signal\nsignal.pause()\n")
    said = report(run("--json", "--timeout", "3", path=tmp_path))
    (problem,) = said["problems"]
    assert "did not end in time" in problem["text"]


def test_a_variable_that_would_be_refused(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    said = report(run("--json", path=tmp_path, PYCOMMS_CONNECT="soon"))
    assert "PYCOMMS_CONNECT" in [one["name"] for one in said["problems"]]


def test_a_system_that_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("there is no such thing here")

    monkeypatch.setattr(limits, "look", fail)
    monkeypatch.setattr(_command, "look_inside", lambda timeout: told())
    _, sections = _command.examine({}, _command.parse(["--no-self-check"]))
    (found,) = next(one.findings for one in sections if one.name == "limits")
    assert "could not be looked at: there is no such thing here" in found.text


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert _command.main(["--timeout", "soon"]) == 4
    assert "'soon' is not a number of seconds" in capsys.readouterr().err
    assert _command.main(["--fast"]) == 4
    assert _command.main(["--help"]) == 0
    assert "exit codes" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_its_children_end_with_it(number: signal.Signals, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    os.mkfifo(place)
    says_who = (
        f"import os, pathlib, signal\npathlib.Path({str(place)!r}).write_text(str(os.getpid()))\nsignal.pause()\n"
    )
    (tmp_path / "torch.py").write_text(says_who)
    doctor = subprocess.Popen(
        COMMAND,
        cwd=ROOT,
        env=surroundings(tmp_path),
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # whoever runs the tests may have it ignored
    )
    try:
        with os.fdopen(os.open(place, os.O_RDONLY | os.O_NONBLOCK), "rb") as pipe:
            assert select.select([pipe], [], [], LIMIT_S / 2)[0]
            child = os.pidfd_open(int(pipe.read()))
        doctor.send_signal(number)
        assert doctor.wait(LIMIT_S / 2) == 130
    finally:
        doctor.kill()
        doctor.wait(LIMIT_S)
    with os.fdopen(child, "rb") as end:
        assert select.select([end], [], [], LIMIT_S / 2)[0]


def test_a_terminal_that_knows_no_arrows(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    done = run("--no-self-check", path=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (1, "")
    assert "\\u2192 mend or reinstall torch" in done.stdout
