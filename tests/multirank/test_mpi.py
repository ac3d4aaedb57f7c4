"""from_mpi(), under the mpirun of real MPI libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.contestants.mpi import FLAVOURS, Flavour
from pycomms.process_group import from_mpi

from ._mpi.answers import read_answers
from ._mpi.installed import packages_of

ROOT = Path(__file__).parents[2]
RANK = Path(__file__).parent / "_mpi" / "rank.py"
EXAMPLE = ROOT / "examples" / "all_reduce_mpi.py"
PATIENCE_S = 100.0
BY_NAME = {flavour.name: flavour for flavour in FLAVOURS}


def mpirun(flavour: Flavour, world: int, *argv: str) -> subprocess.CompletedProcess[str]:
    folder, packages = packages_of(flavour)
    env = {
        **os.environ,
        **flavour.variables,
        **flavour.oversubscribed,
        "MPI4PY_FROM": str(packages),
        "LD_LIBRARY_PATH": str(folder / "lib"),
        "PYTHONPATH": str(ROOT),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
    }
    launcher = [str(folder / "bin" / "mpirun"), *flavour.options, "-n", str(world)]
    return subprocess.run(
        [*launcher, sys.executable, *argv], env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def answers(flavour: Flavour, world: int, case: str) -> list[dict[str, Any]]:
    done = mpirun(flavour, world, str(RANK), case)
    assert done.returncode == 0, done.stdout + done.stderr
    return read_answers(done.stdout)


@pytest.mark.parametrize("name, world", [("mpich", 1), ("mpich", 4), ("openmpi", 2), ("impi", 2)])
def test_all_reduce(name: str, world: int) -> None:
    told = sorted(answers(BY_NAME[name], world, "all_reduce"), key=lambda answer: answer["place"])
    assert [answer["place"] for answer in told] == [[rank, world, rank, world] for rank in range(world)]
    for answer in told:
        assert answer["env"] == [str(number) for number in answer["place"]]
        assert answer["sum"] == world * (world + 1) / 2
        assert answer["backend"] == "nccl2"
        assert "initialised already" in answer["again"]


def test_a_communicator_of_ones_own_and_several_groups_in_turn() -> None:
    told = answers(BY_NAME["mpich"], 4, "halves")
    assert sorted((answer["rank"], answer["sum"], answer["world"]) for answer in told) == [
        (0, 2.0, 4),
        (0, 4.0, 4),
        (1, 2.0, 4),
        (1, 4.0, 4),
    ]


def test_wrong_arguments_and_an_address_where_nobody_is() -> None:
    for answer in answers(BY_NAME["mpich"], 2, "wrong"):
        assert answer["null"].startswith("ValueError: comm is MPI.COMM_NULL")
        assert answer["away"].startswith("EngineError: from_mpi(): rank 1 of 2 did not reach the store of rank 0")
        assert "255.255.255.255" in answer["away"]
        assert answer["then"] == 2


def test_a_rank_that_does_not_come() -> None:
    done = mpirun(BY_NAME["mpich"], 2, str(RANK), "absent")
    assert done.returncode != 0
    assert "CollectiveTimeout: from_mpi(): not all 2 members of MPI_COMM_WORLD called it in time" in done.stdout


def test_mpi_that_is_not_running() -> None:
    (answer,) = answers(BY_NAME["mpich"], 1, "not_begun")
    assert answer["before"].startswith("RuntimeError: from_mpi(): MPI is not initialised")
    assert answer["after"].startswith("RuntimeError: from_mpi(): MPI is finalised")


def test_the_example() -> None:
    begin = "import os, runpy, sys; sys.path.append(os.environ['MPI4PY_FROM'])"
    done = mpirun(BY_NAME["mpich"], 2, "-c", f"{begin}; runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')")
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in (0, 1):
        assert f"rank {rank} of 2, {rank} on its host: equal" in done.stdout


def test_without_mpi4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"needs mpi4py.*pip install 'pycomms\[mpi\]'"):
        from_mpi()
