"""The files in launch/ for launchers that are not here: their mapping of ranks, with stand-ins for what they call."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

LAUNCH = Path(__file__).parents[2] / "launch"
SRUN = """#!/bin/bash
# Two hosts with two tasks each, one after the other.
[ "$1" = --kill-on-bad-exit=1 ] && shift
for task in 0 1 2 3; do
  SLURM_PROCID=$task SLURM_NTASKS=4 SLURM_LOCALID=$((task % 2)) "$@"
done
"""
SCONTROL = """#!/bin/bash
[ "$*" = 'show hostnames node[3-4]' ] && printf 'node3\\nnode4\\n'
"""
SHOW_ARGUMENTS = '#!/bin/sh\nfor argument; do echo "$argument"; done\n'
SHOW_RANK = '#!/bin/sh\necho "$RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR:$MASTER_PORT $*"\n'


def run(folder: Path, programs: dict[str, str], argv: list[str], **variables: str) -> list[str]:
    """The lines that a recipe prints when these programs stand in for the real ones."""
    for name, text in programs.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o700)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", **variables}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.splitlines()


def test_slurm_gives_every_task_its_rank(tmp_path: Path) -> None:
    programs = {"srun": SRUN, "scontrol": SCONTROL, "python": SHOW_RANK}
    recipe = ["bash", str(LAUNCH / "slurm.sbatch"), "train.py", "--name", "two words"]
    told = run(tmp_path, programs, recipe, SLURM_JOB_NODELIST="node[3-4]", SLURM_JOB_ID="1234567")
    assert told == [f"{rank}/4 {rank % 2} node3:24567 train.py --name two words" for rank in range(4)]


def test_slurm_asks_for_a_task_per_rank() -> None:
    text = (LAUNCH / "slurm.sbatch").read_text()
    assert re.findall(r"^#SBATCH --(\S+?)=", text, re.MULTILINE) == ["job-name", "nodes", "ntasks-per-node", "time"]
    assert text.startswith("#!")


def test_torchrun_on_one_host_and_on_several(tmp_path: Path) -> None:
    programs, recipe = {"torchrun": SHOW_ARGUMENTS}, [str(LAUNCH / "torchrun.sh"), "train.py", "two words"]
    assert run(tmp_path, programs, recipe, PER_HOST="4") == [
        *("--standalone", "--nproc-per-node", "4", "train.py", "two words")
    ]
    told = run(tmp_path, programs, recipe, HOSTS="2", PER_HOST="4", MASTER="node0", PORT="1234", JOB="x")
    options = dict(zip(told[:-2:2], told[1:-2:2], strict=True))
    assert options == {
        "--nnodes": "2",
        "--nproc-per-node": "4",
        "--rdzv-backend": "c10d",
        "--rdzv-id": "x",
        "--rdzv-endpoint": "node0:1234",
    }
    assert told[-2:] == ["train.py", "two words"]


def test_torchrun_misses_the_master(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        run(tmp_path, {"torchrun": SHOW_ARGUMENTS}, [str(LAUNCH / "torchrun.sh")], HOSTS="2")
    assert "the name of one of the hosts" in caught.value.stderr


def kubernetes() -> dict[str, Any]:
    return {part["kind"]: part for part in yaml.safe_load_all((LAUNCH / "kubernetes.yaml").read_text())}


def test_kubernetes_parts_fit_together() -> None:
    service, job = kubernetes()["Service"], kubernetes()["Job"]
    name, pod = job["metadata"]["name"], job["spec"]["template"]["spec"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]
    assert service["spec"]["selector"] == {"job-name": name}  # a label that Kubernetes gives to the pods of a Job
    assert pod["subdomain"] == service["metadata"]["name"]
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["parallelism"] == job["spec"]["completions"]
    assert pod["restartPolicy"] == "Never"


@pytest.mark.parametrize("index", [0, 1])
def test_kubernetes_gives_every_pod_its_ranks(index: int, tmp_path: Path) -> None:
    job, service = kubernetes()["Job"], kubernetes()["Service"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    programs = {"torchrun": SHOW_ARGUMENTS}
    told = run(tmp_path, programs, container["command"], JOB_COMPLETION_INDEX=str(index))
    options = dict(zip(told[:-1:2], told[1:-1:2], strict=True))
    assert options["--node-rank"] == str(index)
    assert options["--nnodes"] == str(job["spec"]["completions"])
    assert options["--master-addr"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert [port["containerPort"] for port in container["ports"]] == [int(options["--master-port"])]
