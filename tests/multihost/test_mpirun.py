"""from_mpi() where the ranks are on several hosts: mpirun on one of them starts ranks on the others."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from bench.contestants.mpi import FLAVOURS
from launch.netns import Cluster
from tests.multirank._mpi.answers import read_answers
from tests.multirank._mpi.installed import packages_of

ROOT = Path(__file__).parents[2]
RANK = ROOT / "tests" / "multirank" / "_mpi" / "rank.py"
(MPICH,) = [flavour for flavour in FLAVOURS if flavour.name == "mpich"]


def test_from_mpi_on_two_hosts(tmp_path: Path) -> None:
    folder, packages = packages_of(MPICH)
    agent = tmp_path / "agent"
    mpirun = [str(folder / "bin" / "mpirun"), "-launcher", "ssh", "-launcher-exec", str(agent), "-iface", "eth0"]
    env = {
        "MPI4PY_FROM": str(packages),
        "LD_LIBRARY_PATH": str(folder / "lib"),
        "PYTHONPATH": str(ROOT),
        "FI_TCP_IFACE": "eth0",
        "FI_PROVIDER": "tcp",
        "OMP_NUM_THREADS": "1",
    }
    with Cluster(hosts=2) as cluster:
        cluster.write_agent(agent)
        argv = [*mpirun, "-hosts", "host0,host1", "-ppn", "2", "-n", "4", sys.executable, str(RANK), "hosts"]
        done = cluster.hosts[0].run(argv, env=env, timeout=timedelta(seconds=90), check=False)
    assert done.returncode == 0, done.stderr
    told = sorted(read_answers(done.stdout), key=lambda answer: int(answer["rank"]))
    assert told == [
        {"host": f"host{rank // 2}", "sum": 10.0, "rank": rank, "local_rank": rank % 2} for rank in range(4)
    ]
