"""The table of what needs what: with all, with nothing, and what is said of it to people and programs."""

from __future__ import annotations

from pathlib import Path

from pycomms.doctor import table
from pycomms.doctor.capabilities import CAPABILITIES, missing
from pycomms.doctor.finding import Level

from ._given import by_name, told

DOCS = Path(__file__).parents[2] / "docs"


class Fake:
    """Has all of torch's places and packages or none, and so on."""

    def __init__(
        self, *, python: tuple[int, int] = (3, 11), has: bool = True, extension: str = "", gpus: int = 1
    ) -> None:
        self.python = python
        self.extension = extension
        self.gpus = gpus
        self.nccl: set[str] | None = None  # None: every function
        self._has = has

    def has(self, place: str) -> bool:
        return self._has

    def is_entry_point(self, group: str, name: str) -> bool:
        return self._has

    def nccl_has(self, function: str) -> bool:
        return self.nccl is None or function in self.nccl


def test_with_everything_all_is_there() -> None:
    assert not any(missing(Fake()).values())


def test_without_the_extension_nothing_is_there() -> None:
    assert all(missing(Fake(extension="it is broken")).values())


def test_without_anything_of_torch_the_core_is_there() -> None:
    found = missing(Fake(has=False, gpus=0))
    assert [name for name, lacks in found.items() if not lacks] == [
        "cpu_tensors",
        "windows",
        "recorder_free_lines",
    ]
    assert found["torch_windows"] == ["torch 2.14"]
    assert found["gpu_split"] == ["a GPU", "torch 2.14"]


def test_older_nccl_and_python() -> None:
    fake = Fake(python=(3, 10))
    fake.nccl = {"", "ncclCommRegister"}
    found = missing(fake)
    assert (found["gpu_tensors"], found["gpu_memory_pools"], found["gpu_revoke"]) == ([], [], ["NCCL 2.29"])


def test_names_and_pages_are_such_as_there_are() -> None:
    assert len({one.name for one in CAPABILITIES}) == len(CAPABILITIES)
    assert not [one.page for one in CAPABILITIES if not (DOCS / one.page).exists()]


def test_what_is_missing_for_one_reason_is_one_line() -> None:
    found = by_name(table.judge(told(capabilities=missing(Fake(gpus=0)))))
    assert found["cpu_tensors"].level is Level.OK
    assert "gpu_revoke" in found["gpu_tensors"].text
    assert "torch finds no GPU" in found["gpu_tensors"].text
    assert found["gpu_tensors"].todo == "instead: CPU tensors"
    assert "gpu_revoke" not in found


def test_programs_get_an_object_with_all_names() -> None:
    names = [one.name for one in CAPABILITIES]
    there = table.for_programs(told(capabilities=missing(Fake(gpus=0))))
    assert [*there] == names
    assert there["cpu_tensors"] == {"available": True, "missing": [], "why_not": ""}
    assert there["gpu_split"] == {
        "available": False,
        "missing": ["a GPU"],
        "why_not": "torch finds no GPU: see gpu",
    }
    unknown = table.for_programs(told(without=["capabilities"]))
    assert [*unknown] == names
    assert {one["available"] for one in unknown.values()} == {None}


def test_why_it_is_not_known() -> None:
    (found,) = table.judge(told(without=["capabilities"]))
    assert found.text == "not looked at: there is no torch; see versions"
    (found,) = table.judge(told(without=["cuda", "capabilities"], broke_in="cuda", ended="did not end in time"))
    assert found.text == "not known: the process that looked did not end in time in 'cuda'; it said: the last words"
