"""What the environment says becomes the configuration: every field has its variable."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path

import pytest

from pycomms._config import Config, Launch, variable_of

VALUES = {
    "engine": "/elsewhere/libhostccl.so",
    "vector_width": "avx2",
    "connect": "lazy",
    "register_segments": "1",
    "deterministic": "1",
    "ranks_per_root": "2",
    "nan_check": "nan",
    "socket_ifname": "eth",
    "socket_family": "6",
    "host_timeout": "0.5",
    "reduce_by_hosts": "0",
    "host_id": "north",
    "fr_dir": "/somewhere",
    "fr_job": "a job",
    "fr_entries": "100",
    "fr_stacks": "1",
    "fr_dump_dir": "/elsewhere",
    "fr_dumps": "3",
    "fr_signal": "SIGUSR2",
}


def test_nothing_said_is_the_default() -> None:
    assert Config.from_environment({}) == Config()


def test_every_field_is_read() -> None:
    assert {f.name for f in fields(Config)} == set(VALUES)
    config = Config.from_environment({variable_of(name): value for name, value in VALUES.items()})
    assert {name: str(int(v) if v is True else v) for name, v in asdict(config).items()} == VALUES
    assert isinstance(config.engine, Path)
    assert config.deterministic is True


def test_the_nan_check_of_torch_counts_while_ours_is_not_set() -> None:
    assert Config.from_environment({"TORCH_NCCL_NAN_CHECK": "1"}).nan_check == "nan"
    assert Config.from_environment({"TORCH_NCCL_NAN_CHECK": "0"}).nan_check == "off"
    both = {"TORCH_NCCL_NAN_CHECK": "1", "PYCOMMS_NAN_CHECK": "off"}
    assert Config.from_environment(both).nan_check == "off"


@pytest.mark.parametrize("said, is_on", [("1", True), ("yes", True), ("True", True), ("0", False), ("no", False)])
def test_yes_and_no_are_spelled_as_torch_does(said: str, is_on: bool) -> None:
    assert Config.from_environment({"PYCOMMS_DETERMINISTIC": said}).deterministic is is_on


def test_the_names_of_torch_for_registered_segments_count_while_ours_is_not_set() -> None:
    torchs = {"TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK": "1"}
    assert Config.from_environment(torchs).register_segments
    assert not Config.from_environment({**torchs, "PYCOMMS_REGISTER_SEGMENTS": "0"}).register_segments


def test_a_value_that_makes_no_sense_is_refused() -> None:
    for variable, value in (
        ("PYCOMMS_CONNECT", "sometimes"),
        ("PYCOMMS_DETERMINISTIC", "sometimes"),
        ("PYCOMMS_NAN_CHECK", "1"),
        ("TORCH_NCCL_NAN_CHECK", "sometimes"),
        ("TORCH_NCCL_RANKS_PER_ROOT", "-1"),
        ("PYCOMMS_FR_ENTRIES", "many"),
        ("PYCOMMS_FR_SIGNAL", "12"),
    ):
        with pytest.raises(ValueError, match=variable):
            Config.from_environment({variable: value})


def test_what_launchers_say() -> None:
    torchrun = {"RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RESTART_COUNT": "2", "TORCHELASTIC_RUN_ID": "run"}
    assert Launch.from_environment(torchrun) == Launch(rank=3, world_size=8, attempt=2, job="run")
    slurm = {"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "77"}
    assert Launch.from_environment(slurm) == Launch(rank=1, world_size=4, attempt=0, job="slurm77")
    standalone = {"RANK": "0", "TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "host", "MASTER_PORT": "29500"}
    assert Launch.from_environment(standalone).job == "host_29500"
    assert Launch.from_environment({"RANK": "first"}) == Launch(rank=-1, world_size=0, attempt=0, job="")
