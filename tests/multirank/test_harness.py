"""The harness itself: failures are told with their rank, nothing waits for ever, no process is left."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from ._harness import Died, Ranks, RanksError, context


def check_sum_of_ranks(rank: int, world: int) -> int:
    tensor = torch.tensor([rank + 1])
    dist.all_reduce(tensor)
    return int(tensor)


def check_one_fails(rank: int, world: int) -> None:
    if rank == 1:
        raise ValueError("the message of rank 1")


def check_one_waits(rank: int, world: int) -> None:
    if rank == 1:
        threading.Event().wait(600.0)


def check_tell_and_wait(rank: int, world: int) -> None:
    context().tell("ready")
    threading.Event().wait(600.0)


def check_pid(rank: int, world: int) -> int:
    return os.getpid()


def check_environment(rank: int, world: int) -> str | None:
    return os.environ.get("HARNESS_TEST")


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
def test_every_rank_runs_and_returns(ranks: Ranks, world: int) -> None:
    assert ranks.run(check_sum_of_ranks, world=world) == [world * (world + 1) // 2] * world


def test_a_failing_rank_is_shown_with_its_traceback(ranks: Ranks) -> None:
    with pytest.raises(RanksError, match=r"(?s)rank 1 raised.*the message of rank 1") as caught:
        ranks.run(check_one_fails, world=2)
    assert "in check_one_fails" in str(caught.value)


def test_a_stuck_rank_is_shown_with_its_stacks_and_replaced(ranks: Ranks) -> None:
    began = time.monotonic()
    run = ranks.start(check_one_waits, world=2, timeout=1.0)
    pids = run.pids
    with pytest.raises(RanksError, match=r"(?s)rank 1 did not finish.*in check_one_waits"), run:
        run.finish()
    assert time.monotonic() - began < 10.0
    assert not any(_alive(pid) for pid in pids)
    assert ranks.run(check_sum_of_ranks, world=2) == [3, 3]


def test_a_killed_rank_is_an_outcome(ranks: Ranks) -> None:
    with ranks.start(check_tell_and_wait, world=1, init=False, fresh=True) as run:
        assert run.told(0) == "ready"
        run.signal(0, signal.SIGKILL)
        (died,) = run.finish(died={0})
    assert isinstance(died, Died)
    assert died.by_signal == signal.SIGKILL


def test_workers_are_reused_unless_fresh(ranks: Ranks) -> None:
    first = set(ranks.run(check_pid, world=2, init=False))
    assert set(ranks.run(check_pid, world=2, init=False)) == first
    fresh = set(ranks.run(check_pid, world=2, init=False, fresh=True))
    assert not fresh & first
    assert not any(_alive(pid) for pid in fresh)


def test_environment_lasts_for_one_run(ranks: Ranks) -> None:
    assert ranks.run(check_environment, world=1, init=False, env={"HARNESS_TEST": "1"}) == ["1"]
    assert ranks.run(check_environment, world=1, init=False) == [None]


_ABANDON = """
import os, signal
from tests.multirank._harness import Pool
if __name__ == "__main__":
    print(*[worker.pid for worker in Pool().take(2, fresh=True)], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_die_with_the_parent(tmp_path: Path) -> None:
    script = tmp_path / "abandon.py"
    script.write_text(_ABANDON)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "TMPDIR": str(tmp_path)}
    parent = subprocess.run([sys.executable, script], env=environment, capture_output=True, timeout=60.0, text=True)
    pids = [int(pid) for pid in parent.stdout.split()]
    assert len(pids) == 2
    for pid in pids:
        assert _gone_within(pid, 10.0)


def _gone_within(pid: int, seconds: float) -> bool:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], seconds)[0])
    finally:
        os.close(process)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
