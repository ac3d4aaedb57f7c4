"""One-sided windows between hosts: every operation, on clean and on bad networks, and what happens when a host goes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
