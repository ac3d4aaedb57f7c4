"""When a job of torch has failed: what the flight recorder knows is told with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ._running import Running


@pytest.mark.timeout(300)  # two workers import torch
def test_the_flight_recorder_says_what_happened(tmp_path: Path) -> None:
    script = """
        import os
        import torch
        import torch.distributed as dist
        import pycomms
        dist.init_process_group("nccl2")
        dist.all_reduce(torch.ones(4))
        if dist.get_rank() == 1:
            os._exit(3)
        dist.all_reduce(torch.ones(4))
    """
    records = tmp_path / "records"
    options = ("--nproc-per-node=2", "--max-restarts=0", "--rdzv-id=told")
    with Running(tmp_path, script, *options, environment={"PYCOMMS_FR_DIR": str(records)}) as job:
        assert job.end(250) == 1
        job.line("first: rank 1 .* exit code 3")
        job.line(r"RANK_DIED root ranks \[1\] group default_pg seq 2 all_reduce")
        job.line(f"records: {records}/told")


@pytest.mark.needs_torch("2.14", "elastic sessions")
@pytest.mark.timeout(300)  # a worker imports torch
def test_it_says_nothing_of_a_job_that_has_not_come_to_an_operation(tmp_path: Path) -> None:
    script = """
        from pycomms import ft
        ft.Session()
        raise ValueError("no data")
    """
    records = tmp_path / "records"
    with Running(tmp_path, script, "--max-restarts=0", environment={"PYCOMMS_FR_DIR": str(records)}) as job:
        assert job.end(250) == 1
        job.line("ValueError: no data")
        assert list(records.rglob("*.ring")), "there are records"
        assert not job.count("flight recorder")
