"""What is made of memory, cores, descriptors, and of what kernel and container allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pycomms.doctor import cgroups, limits
from pycomms.doctor.finding import Level

from ._given import GIB, LIMITS, by_name, judge_limits, told


def test_nothing_is_said_of_a_good_system() -> None:
    assert {one.level for one in judge_limits().values()} == {Level.OK}


def test_a_full_shm_is_a_problem_of_the_flight_recorder() -> None:
    full: dict[str, Any] = {"shm_size": 64 << 20, "shm_free": 1 << 20}
    found = judge_limits(**full)["/dev/shm"]
    assert found.level is Level.PROBLEM
    assert "1.0 MiB free of 64 MiB" in found.text
    assert "--shm-size" in found.todo
    assert "PYCOMMS_FR_DIR" in found.todo
    assert judge_limits(records_in_shm=False, **full)["/dev/shm"].level is Level.NOTE


def test_a_small_shm_is_a_note() -> None:
    found = judge_limits(shm_size=64 << 20, shm_free=60 << 20)["/dev/shm"]
    assert (found.level, "DataLoader" in found.text) == (Level.NOTE, True)


def test_no_shm_at_all() -> None:
    missing: dict[str, Any] = {"shm_size": 0, "shm_free": 0, "shm_trouble": "No such file or directory"}
    assert judge_limits(**missing)["/dev/shm"].level is Level.PROBLEM
    assert judge_limits(records_in_shm=False, **missing)["/dev/shm"].level is Level.NOTE


@pytest.mark.parametrize(
    "limit, level", [(64, Level.PROBLEM), (512, Level.NOTE), (1024, Level.OK), (-1, Level.OK)], ids=str
)
def test_descriptors(limit: int, level: Level) -> None:
    assert judge_limits(descriptors=limit)["descriptors"].level is level


def test_cores_that_a_control_group_halts() -> None:
    found = judge_limits(groups=cgroups.Limits(memory=None, used=None, cpus=1.5))["cores"]
    assert (found.level, found.value) == (Level.NOTE, 1.5)
    assert "at most 1 ranks" in found.todo


def test_memory_of_a_control_group() -> None:
    tight = cgroups.Limits(memory=2 * GIB, used=2 * GIB - 1000, cpus=None)
    assert judge_limits(groups=tight)["memory"].level is Level.NOTE
    wide = cgroups.Limits(memory=8 * GIB, used=GIB, cpus=None)
    assert judge_limits(groups=wide)["memory"].level is Level.OK
    more_than_there_is = cgroups.Limits(memory=64 * GIB, used=GIB, cpus=None)
    assert judge_limits(groups=more_than_there_is)["memory"].value == LIMITS.memory


@pytest.mark.parametrize("name", ["memfd", "pidfd"])
def test_what_a_sandbox_forbids(name: str) -> None:
    forbidden: dict[str, Any] = {name: "Function not implemented"}
    found = judge_limits(**forbidden)[name]
    assert (found.level, "Function not implemented" in found.text) == (Level.PROBLEM, True)


def test_memory_of_others_that_cannot_be_mapped() -> None:
    forbidden = told(peers={"error": "Permission denied"})
    found = by_name(limits.judge(LIMITS, forbidden))["ptrace"]
    assert (found.level, "Permission denied" in found.text, found.value) == (Level.NOTE, True, 1)
    unknown = told(without=["peers"], ended="did not end in time")
    assert "did not end in time" in by_name(limits.judge(LIMITS, unknown))["ptrace"].text


def test_namespaces_may_be_unknown() -> None:
    assert judge_limits()["namespaces"].value == ["net:[1]", "pid:[2]"]
    assert judge_limits(network_namespace="", process_namespace="")["namespaces"].level is Level.NOTE


def test_this_system_can_be_looked_at() -> None:
    seen = limits.look()
    assert seen.cores >= seen.allowed_cores > 0
    assert seen.memory > 0
    by_name(limits.judge(seen, told()))


def _group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("_DOT_", ".")).write_text(text)


def test_control_groups_of_version_2(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/outer/inner\n")
    _group(tmp_path / "outer", memory_DOT_max=f"{GIB}\n", memory_DOT_current="1000\n", cpu_DOT_max="150000 100000\n")
    _group(tmp_path / "outer" / "inner", memory_DOT_max="max\n", cpu_DOT_max="max 100000\n")
    assert cgroups.look(tmp_path, str(own)) == cgroups.Limits(memory=GIB, used=1000, cpus=1.5)


def test_control_groups_of_version_1(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("5:memory:/job\n4:cpu,cpuacct:/job\n3:pids:/job\n")
    _group(tmp_path / "memory" / "job", memory_DOT_limit_in_bytes=f"{GIB}", memory_DOT_usage_in_bytes="2000")
    _group(tmp_path / "memory", memory_DOT_limit_in_bytes=f"{2**63 - 4096}")
    _group(tmp_path / "cpu" / "job", cpu_DOT_cfs_quota_us="200000", cpu_DOT_cfs_period_us="100000")
    _group(tmp_path / "cpu", cpu_DOT_cfs_quota_us="-1", cpu_DOT_cfs_period_us="100000")
    assert cgroups.look(tmp_path, str(own)) == cgroups.Limits(memory=GIB, used=2000, cpus=2.0)


def test_no_control_groups(tmp_path: Path) -> None:
    nothing = cgroups.Limits(memory=None, used=None, cpus=None)
    assert cgroups.look(tmp_path, str(tmp_path / "missing")) == nothing
