"""Programs that know nothing of all this, started on the hosts by us and by torchrun: on our backend, and on gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launch.netns import Cluster

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "multihost" / "_programs" / "all_reduce.py"
PATIENCE_S = 100.0
EXPECTED = [f"rank {rank} of 4, {rank % 2} on host{rank // 2}: 10.0" for rank in range(4)]


@pytest.mark.parametrize("backend", ["pycomms", "gloo"])
def test_two_hosts_far_apart(warm_python: str, backend: str) -> None:
    netns = [sys.executable, "-m", "launch.netns", "run", "--hosts", "2", "--per-host", "2", "--latency", "5ms"]
    argv = [*netns, "--", warm_python, str(PROGRAM), backend]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(line.partition("] ")[2] for line in done.stdout.splitlines()) == EXPECTED


def test_torchrun_on_two_hosts() -> None:
    torchrun = str(ROOT / "launch" / "torchrun.sh")
    path = f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"
    env = {"HOSTS": "2", "MASTER": "host0", "PATH": path, "OMP_NUM_THREADS": "1"}
    with Cluster(hosts=2) as cluster:
        agents = [
            host.popen([torchrun, str(PROGRAM), "pycomms"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for host in cluster.hosts
        ]
        lines: list[str] = []
        for agent in agents:
            output, errors = agent.communicate(timeout=PATIENCE_S)
            assert agent.returncode == 0, errors
            lines += output.splitlines()
    # torchrun numbers the hosts in the order in which they came.
    assert sorted(line.split(",")[0] for line in lines) == ["rank 0 of 2", "rank 1 of 2"]
    assert sorted(line.split(", ")[1] for line in lines) == ["0 on host0: 3.0", "0 on host1: 3.0"]
