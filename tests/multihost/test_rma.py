"""One-sided windows between hosts: every operation, on clean and on bad networks, and what happens when a host goes."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launch._netns.names import clusters
from launch.netns import Cluster

ROOT = Path(__file__).parents[2]
PATIENCE_S = 100.0
NOTICED_WITHIN_S = 3.0
PROGRAM = ["-m", "tests.multihost._programs.rma"]


@pytest.mark.parametrize(
    "trouble, each",
    [([], 2500), (["--latency", "2ms"], 50), (["--loss", "1%"], 50)],
    ids=["clean", "latency", "loss"],
)
def test_every_operation_between_two_hosts(warm_python: str, trouble: list[str], each: int) -> None:
    netns = [sys.executable, "-m", "launch.netns", "run", "--hosts", "2", "--per-host", "2", *trouble]
    argv = [*netns, "--", warm_python, *PROGRAM, "operate", str(each)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(line.partition("] ")[2] for line in done.stdout.splitlines()) == [
        "reaches mapped self served served",
        "reaches self mapped served served",
        "reaches served served mapped self",
        "reaches served served self mapped",
    ]


def test_a_lost_host_is_named_and_the_others_go_on(warm_python: str) -> None:
    """Ranks 0 and 1 are on hosts that stay: each call to rank 2 fails in time, and calls to each other work."""
    with Cluster(hosts=3) as cluster:
        ranks = []
        for rank, host in enumerate(cluster.hosts):
            env = {
                "RANK": str(rank),
                "WORLD_SIZE": "3",
                "MASTER_ADDR": "host0",
                "MASTER_PORT": "29500",
                "OMP_NUM_THREADS": "1",
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            }
            argv = [warm_python, *PROGRAM, "lose"]
            ranks.append(host.popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        for process in ranks:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
        cluster.partition({0, 1}, {2})
        for process in ranks[:2]:
            output, errors = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, errors
            told = re.findall(r"(\w+): PeerFailure of \(2,\) after ([\d.]+) s", output)
            assert [name for name, _ in told] == ["wait_signal", "put", "get", "lock", "fetch_add"], output
            assert all(float(seconds) < NOTICED_WITHIN_S for _, seconds in told), output
            assert output.endswith("the others go on\n"), output
        ranks[2].kill()
        ranks[2].communicate()


def _left_of(mark: str, launcher: int) -> list[str]:
    """What exists of a job: its hosts, and processes with the mark in their environment."""
    found = [name.text for name in clusters() if name.pid == launcher]
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                found.append(f"process {folder.name}: {(folder / 'cmdline').read_text()}")
        except OSError:
            continue  # it has ended
    return found


@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGINT], ids=["by itself", "SIGTERM", "SIGINT"])
def test_nothing_is_left_of_windows_between_hosts(number: int | None) -> None:
    """However the job ends: after its work, or by a signal in the middle of it."""
    mark = f"pycomms-test-{secrets.token_hex(8)}"
    each = 200 if number is None else 100_000_000
    netns = [sys.executable, "-m", "launch.netns", "run", "--hosts", "2", "--per-host", "2", "--grace", "2s"]
    job = subprocess.Popen(
        [*netns, "--", sys.executable, *PROGRAM, "operate", str(each)],
        cwd=ROOT,
        env={**os.environ, "MARK": mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    for _ in range(4):
        line = job.stdout.readline()
        assert "reaches" in line, (line, job.communicate(timeout=PATIENCE_S))  # every rank is at work in the windows
    if number is not None:
        assert any("process" in one for one in _left_of(mark, job.pid))
        job.send_signal(number)
    _, errors = job.communicate(timeout=PATIENCE_S)
    assert (job.returncode == 0) == (number is None), errors
    deadline = time.monotonic() + 5.0  # the kernel takes a killed process down while its parent is told
    while (left := _left_of(mark, job.pid)) and time.monotonic() < deadline:
        os.sched_yield()
    assert left == []
