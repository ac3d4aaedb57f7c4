"""What is made of torch, the extension and the engine, also where they are broken or missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pycomms.doctor import versions
from pycomms.doctor._inside import mapped
from pycomms.doctor.finding import Level

from ._given import OWN, by_name, told

LATER = ("extension", "nccl", "cuda", "capabilities")


def test_all_is_well() -> None:
    assert {one.level for one in by_name(versions.judge(OWN, told())).values()} == {Level.OK}


def test_torch_is_missing() -> None:
    found = by_name(versions.judge(OWN, told(without=LATER, torch={"error": "ModuleNotFoundError", "missing": True})))
    assert (found["torch"].level, found["extension"].level) == (Level.PROBLEM, Level.NOTE)
    assert "pytorch.org" in found["torch"].todo


def test_torch_is_broken() -> None:
    broken = {"error": "OSError: libcudart.so.13: cannot open shared object file", "missing": False}
    found = by_name(versions.judge(OWN, told(without=LATER, torch=broken)))["torch"]
    assert (found.level, "libcudart.so.13" in found.text) == (Level.PROBLEM, True)


@pytest.mark.parametrize("ended", ["did not end in time", "was ended by SIGSEGV"])
def test_the_import_of_torch_does_not_come_back(ended: str) -> None:
    found = by_name(versions.judge(OWN, told(without=("torch", *LATER), broke_in="torch", ended=ended)))["torch"]
    assert (found.level, ended in found.text, "the last words" in found.text) == (Level.PROBLEM, True, True)


def test_the_extension_has_not_been_built() -> None:
    found = by_name(versions.judge(replace(OWN, modules=()), told()))["extension"]
    assert (found.level, "has not been built" in found.text) == (Level.PROBLEM, True)
    other = replace(OWN, modules=("_C.cpython-310-x86_64-linux-gnu.so",))
    assert "another Python" in by_name(versions.judge(other, told()))["extension"].text


def test_the_extension_is_for_another_torch() -> None:
    unloadable = told(extension={"error": "ImportError: undefined symbol: _ZN3c10", "torch": ""})
    found = by_name(versions.judge(OWN, unloadable))["extension"]
    assert (found.level, "built for another torch" in found.text) == (Level.PROBLEM, True)
    assert "--no-build-isolation" in found.todo


def test_the_engine_cannot_be_loaded() -> None:
    found = by_name(versions.judge(OWN, told(engine={"path": "/x.so", "error": "no such file"})))["engine"]
    assert (found.level, "PYCOMMS_ENGINE" in found.todo) == (Level.PROBLEM, True)


def test_vectors_that_the_processor_has_not() -> None:
    found = by_name(versions.judge(OWN, told(engine={"vectors": ""})))["engine"]
    assert (found.level, "avx2" in found.todo) == (Level.PROBLEM, True)


def test_libraries_are_found_in_the_map_of_a_process() -> None:
    maps = (
        "7f00-7f01 r-xp 00000000 fe:00 1 /a b/libnccl.so.2.30.7\n"
        "7f01-7f02 r--p 00000000 fe:00 1 /a b/libnccl.so.2.30.7\n"
        "7f02-7f03 rw-p 00000000 00:00 0 \n"
        "7f03-7f04 r-xp 00000000 fe:00 2 /c/libnccl-net.so\n"
    )
    assert mapped(maps, "libnccl.so") == ["/a b/libnccl.so.2.30.7"]


def test_this_installation_can_be_looked_at() -> None:
    own = versions.look()
    assert own.version
    by_name(versions.judge(own, told()))
