"""Workers without an agent, several on one host: under torchrun, or started by hand. Each is a host of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.ft.coordinator._process import serving

pytestmark = pytest.mark.needs_torch("2.14", "elastic sessions")

ROOT = Path(__file__).parents[3]
DEADLINE_S = 100.0
TORCHRUN = ("-m", "torch.distributed.run", "--standalone")
WORKER = ("-m", "tests.ft.session._alone")


class Workers:
    """Processes of a job whose coordinator waits for so many. Ended with the block."""

    def __init__(self, stack: ExitStack, folder: Path, python: str, count: int) -> None:
        self._stack, self._folder, self._python = stack, folder, python
        token = folder / "token"
        _, told = stack.enter_context(serving(token, f"--expected={count}", f"--max-ranks={count}"))
        base = {name: value for name, value in os.environ.items() if not name.startswith("PYCOMMS_")}
        path = os.pathsep.join(filter(None, (str(ROOT), base.get("PYTHONPATH"))))
        self._environment = {
            **base,
            "PYTHONPATH": path,
            "PYTHON_EXEC": python,  # of torchrun, for the workers
            "PYCOMMS_COORDINATOR": told["listening"],
            "PYCOMMS_JOB_TOKEN_FILE": str(token),
        }

    def start(self, *command: str, **plan: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self._python, *command, *WORKER, str(self._folder), json.dumps(plan)],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._stack.callback(_end, process)
        return process

    def told(self) -> list[dict[str, Any]]:
        """By slot."""
        found = [json.loads(path.read_text()) for path in self._folder.glob("*.json")]
        return sorted(found, key=lambda one: one["slot"])


def _end(process: subprocess.Popen[str]) -> None:
    """torchrun ends its workers when it is told to end itself."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=DEADLINE_S)


@contextmanager
def workers(folder: Path, python: str, count: int) -> Iterator[Workers]:
    with ExitStack() as stack:
        yield Workers(stack, folder, python, count)


@pytest.mark.parametrize("count", [2, 4])
def test_workers_of_torchrun_train(tmp_path: Path, warm_python: str, count: int) -> None:
    with workers(tmp_path, warm_python, count) as job:
        process = job.start(*TORCHRUN, f"--nproc-per-node={count}", until=8, together=count)
        output, _ = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, output
    found = job.told()
    assert [one["slot"] for one in found] == list(range(count))
    assert all(one["worlds"] == {str(step): count for step in range(1, 9)} for one in found)
    assert all(one["weights"] == found[0]["weights"] for one in found)


@pytest.mark.parametrize("count", [2, 4])
def test_the_others_go_on_when_one_is_killed(tmp_path: Path, warm_python: str, count: int) -> None:
    """Started one by one: nobody ends the others because of it."""
    with workers(tmp_path, warm_python, count) as job:
        processes = [job.start(until=8, together=count, dies=(1, 4)) for _ in range(count)]
        outputs = [process.communicate(timeout=DEADLINE_S)[0] for process in processes]
        ends = sorted(process.returncode for process in processes)
        assert ends == [-signal.SIGKILL] + [0] * (count - 1), "\n".join(outputs)
    found = job.told()
    assert [one["slot"] for one in found] == [0, *range(2, count)]
    assert found[0]["worlds"] == {str(step): count if step < 4 else count - 1 for step in range(1, 9)}
    assert all(one["worlds"] == found[0]["worlds"] and one["weights"] == found[0]["weights"] for one in found)


def test_a_torchrun_that_starts_its_workers_again_joins_the_others(tmp_path: Path, warm_python: str) -> None:
    """It ends the siblings of a dead worker: what is replaced is all that one torchrun has started."""
    with workers(tmp_path, warm_python, 4) as job:
        plan: dict[str, Any] = {"until": 10, "together": 4, "dies": (3, 4), "hold": 6}
        replicas = [job.start(*TORCHRUN, "--nproc-per-node=2", "--max-restarts=1", **plan) for _ in range(2)]
        for process in replicas:
            output, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0, output
    found = job.told()
    assert [one["slot"] for one in found] == [0, 1, 2, 3]
    assert all(one["weights"] == found[0]["weights"] for one in found)
    stayed = [list(one["worlds"].values()) for one in found if len(one["worlds"]) == 10]
    assert len(stayed) == 2
    assert stayed[0] == stayed[1]
    assert stayed[0][:3] == [4, 4, 4]
    assert stayed[0][-1] == 4
