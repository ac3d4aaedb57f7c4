"""CPU tensors of ranks on several hosts: right results, training, and the loss of a host."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from launch.netns import Cluster, Wire

ROOT = Path(__file__).parents[2]
PATIENCE_S = 100.0
NOTICED_WITHIN_S = 3.0


class Job:
    """Ranks of _programs/engine.py, `per_host` on each host of a cluster."""

    def __init__(self, python: str, cluster: Cluster, per_host: int, what: str, **settings: str) -> None:
        world = len(cluster.hosts) * per_host
        self.ranks: list[Any] = []
        for rank in range(world):
            env = {
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_RANK": str(rank % per_host),
                "LOCAL_WORLD_SIZE": str(per_host),
                "MASTER_ADDR": "host0",
                "MASTER_PORT": "29500",
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": str(ROOT),
                **settings,
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            }
            argv = [python, "-m", "tests.multihost._programs.engine", what]
            host = cluster.hosts[rank // per_host]
            self.ranks.append(host.popen(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def await_line(self, text: str) -> None:
        """Of every rank."""
        for rank in self.ranks:
            for line in rank.stdout:
                if line.strip() == text:
                    break

    def finish(self, ranks: Iterable[int] | None = None) -> list[str]:
        lines = []
        for rank in self.ranks if ranks is None else [self.ranks[r] for r in ranks]:
            output, errors = rank.communicate(timeout=PATIENCE_S)
            assert rank.returncode == 0, errors
            lines += output.splitlines()
        return lines


@pytest.mark.parametrize("hosts", [2, 4])
def test_results_are_right(warm_python: str, hosts: int) -> None:
    with Cluster(hosts=hosts) as cluster:
        lines = Job(warm_python, cluster, 2, "matrix").finish()
    counts = {line.partition(": ")[2] for line in lines}
    assert len(lines) == 2 * hosts, lines
    assert len(counts) == 1, lines


@pytest.mark.parametrize("wire", [Wire(latency=timedelta(milliseconds=50)), Wire(loss=0.01)], ids=["50ms", "1%"])
def test_training_is_that_of_one_host(warm_python: str, wire: Wire) -> None:
    with Cluster(hosts=1) as cluster:
        (expected,) = _trained(warm_python, cluster, 4)
    with Cluster(hosts=2) as cluster:
        cluster.set_wire(wire)
        (bits,) = _trained(warm_python, cluster, 2, PYCOMMS_REDUCE_BY_HOSTS="0")
        (by_hosts,) = _trained(warm_python, cluster, 2)
    assert bits == expected
    # Each host's ranks are added first: other bits, though the same on every rank.
    assert [float(text) for text in by_hosts.split()] == pytest.approx(
        [float(text) for text in expected.split()], rel=1e-5
    )


def _trained(warm_python: str, cluster: Cluster, per_host: int, **settings: str) -> set[str]:
    """What the ranks print at the end: one text, if all have come to the same."""
    return {line.partition(": ")[2] for line in Job(warm_python, cluster, per_host, "train", **settings).finish()}


@pytest.mark.parametrize("how", ["down", "one-way"])
def test_a_lost_host_is_noticed(warm_python: str, how: str) -> None:
    with Cluster(hosts=2) as cluster:
        job = Job(warm_python, cluster, 2, "lose")
        job.await_line("READY")
        if how == "down":
            cluster.link_down(1)
        else:
            cluster.cut(speaker=1, listener=0)
        lines = job.finish(range(2))
    for line in lines:
        found = re.fullmatch(r"rank [01]: \[2, 3\] after (.*) s", line)
        assert found is not None, lines
        assert float(found.group(1)) < NOTICED_WITHIN_S


@pytest.mark.needs_torch("2.14", "groups that change their size")
@pytest.mark.parametrize("lost", [0, 1])
def test_the_other_hosts_go_on_without_a_lost_one(warm_python: str, lost: int) -> None:
    """Host 0 is where the store is, and the one who called the members together."""
    with Cluster(hosts=3) as cluster:
        job = Job(warm_python, cluster, 2, "outlive")
        job.await_line("READY")
        cluster.link_down(lost)
        gone = [2 * lost, 2 * lost + 1]
        rest = [rank for rank in range(6) if rank not in gone]
        lines = job.finish(rest)
    for line, (place, rank) in zip(lines, enumerate(rest), strict=True):
        found = re.fullmatch(rf"rank {rank}: without {re.escape(str(gone))} as rank {3 - place} of 4 in (.*) s", line)
        assert found is not None, lines
        assert float(found.group(1)) < NOTICED_WITHIN_S


@pytest.mark.needs_torch("2.14", "groups that change their size")
def test_another_host_joins(warm_python: str) -> None:
    with Cluster(hosts=2) as cluster:
        lines = Job(warm_python, cluster, 2, "join").finish()
    for rank, line in enumerate(lines):
        assert line.startswith(f"rank {rank}: together as rank {rank} of 4"), lines
