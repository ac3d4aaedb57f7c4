"""What is made of libnccl, driver and GPUs; none of them is needed for that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pycomms.doctor import gpus
from pycomms.doctor.finding import Level

from ._given import HARDWARE, NCCL, PACKAGES, by_name, told

WITH_DRIVER = replace(HARDWARE, driver="580.65.06", devices=("/dev/nvidia0",), tool="NVIDIA H200, 580.65.06")
WITHOUT_CUDA = {"version": "2.14.1+cpu", "cuda": ""}


def test_no_gpu_is_no_problem_and_cpu_tensors_are_served() -> None:
    found = by_name(gpus.judge_gpus(HARDWARE, told()))
    assert {one.level for one in found.values()} == {Level.OK}
    assert "none" in found["driver"].text
    assert "no GPU tensors" in found["gpus"].text
    assert "CPU tensors are served by pycomms' own engine" in found["gpus"].text


def test_gpus_are_told() -> None:
    found = by_name(gpus.judge_gpus(WITH_DRIVER, told(cuda={"models": ["NVIDIA H200"] * 8})))
    assert found["gpus"].text == "8: NVIDIA H200"
    assert found["driver"].value == "580.65.06"


def test_a_gpu_that_torch_does_not_find() -> None:
    found = by_name(gpus.judge_gpus(WITH_DRIVER, told(cuda={"warnings": ["driver too old"]})))["gpus"]
    assert (found.level, "driver too old" in found.text) == (Level.PROBLEM, True)
    hidden = replace(WITH_DRIVER, visible="")
    assert by_name(gpus.judge_gpus(hidden, told()))["gpus"].level is Level.NOTE
    assert by_name(gpus.judge_gpus(WITH_DRIVER, told(torch=WITHOUT_CUDA)))["gpus"].level is Level.NOTE


def test_a_driver_that_hangs() -> None:
    late = told(without=["cuda", "capabilities"], broke_in="cuda", ended="did not end in time")
    found = by_name(gpus.judge_gpus(WITH_DRIVER, late))["gpus"]
    assert (found.level, "did not end in time" in found.text) == (Level.PROBLEM, True)


def test_devices_without_a_driver() -> None:
    assert by_name(gpus.judge_gpus(replace(HARDWARE, devices=("/dev/nvidia0",)), told()))["driver"].level is (
        Level.PROBLEM
    )


def test_the_one_libnccl() -> None:
    found = by_name(gpus.judge_nccl(HARDWARE, told()))["libnccl"]
    assert found.level is Level.OK
    assert found.text == f"2.30.7, {NCCL}, installed with torch"
    assert found.value == {"path": NCCL, "version": "2.30.7"}


def test_two_libnccl_are_a_problem() -> None:
    found = by_name(gpus.judge_nccl(HARDWARE, told(nccl={"loaded": [NCCL, "/usr/lib/libnccl.so.2"]})))["libnccl"]
    assert (found.level, "/usr/lib/libnccl.so.2" in found.text) == (Level.PROBLEM, True)


def test_a_libnccl_that_is_not_torchs() -> None:
    elsewhere = told(nccl={"loaded": ["/opt/nccl/lib/libnccl.so.2"], "version": 22700})
    found = by_name(gpus.judge_nccl(replace(HARDWARE, library_path="/opt/nccl/lib"), elsewhere))["libnccl"]
    assert (found.level, "made for 2.30.7" in found.text) == (Level.NOTE, True)


def test_a_libnccl_that_is_too_old() -> None:
    assert by_name(gpus.judge_nccl(HARDWARE, told(nccl={"version": None})))["libnccl"].level is Level.PROBLEM


def test_no_libnccl_is_needed_without_cuda() -> None:
    nothing: dict[str, Any] = {"loaded": [], "version": None, "built_with": None}
    assert by_name(gpus.judge_nccl(HARDWARE, told(torch=WITHOUT_CUDA, nccl=nothing)))["libnccl"].level is Level.OK
    assert by_name(gpus.judge_nccl(HARDWARE, told(nccl=nothing)))["libnccl"].level is Level.NOTE


@pytest.mark.parametrize(
    "path, library_path, preload, expected",
    [
        (NCCL, "", "", "installed with torch"),
        (NCCL, "/opt", "", "installed with torch"),
        (NCCL, f"/opt::{PACKAGES}/nvidia/nccl/lib", "", "by LD_LIBRARY_PATH"),
        ("/opt/libnccl.so.2", "", "/lib/x.so:/opt/libnccl.so.2", "by LD_PRELOAD"),
        ("/usr/lib/libnccl.so.2", "", "", "of the system"),
    ],
)
def test_where_it_comes_from(path: str, library_path: str, preload: str, expected: str) -> None:
    hardware = replace(HARDWARE, library_path=library_path, preload=preload)
    assert gpus.origin(path, hardware, f"{PACKAGES}/torch") == expected


def test_version_of_the_driver() -> None:
    said = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\nGCC version: 12.3.0\n"
    assert gpus.driver_version(said) == "580.65.06"
    assert gpus.driver_version("") == ""
