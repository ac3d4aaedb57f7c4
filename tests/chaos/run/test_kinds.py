"""Every fault that needs no torch is done, to small programs: what is seen of it is what was wanted."""

from __future__ import annotations

import json
import socket
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ._runs import Ran
from ._runs import run_here as run

LOOP = Path(__file__).with_name("_loop.py")


def job(steps: int = 40, port: int = 0) -> list[str]:
    """Two ranks; the exit code is that of rank 1."""
    worker = f"{sys.executable} {LOOP} {steps} {port or ''}"
    return ["sh", "-c", f"RANK=0 WORLD_SIZE=2 {worker} & RANK=1 WORLD_SIZE=2 {worker}; code=$?; wait; exit $code"]


def plan(kind: str, settings: dict[str, Any], at: str = "step = 20", outcome: str = "completes") -> str:
    more = "\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items())
    return f"""
    ranks = 2
    duration = 60
    [expect]
    outcome = "{outcome}"
    violations = {json.dumps(["explained"] if outcome == "fails" else [])}
    [[fault]]
    kind = "{kind}"
    rank = 1
    at = {{ {at} }}
    {more}
    """


def run_in(folder: Path, text: str, command: list[str]) -> Ran:
    folder.mkdir()
    return run(folder, text, command)


def events(ran: Ran, kind: str, rank: int = 1) -> list[dict[str, Any]]:
    told = map(json.loads, (ran.folder / "events.jsonl").read_text().splitlines())
    return [one for one in told if one["kind"] == kind and one.get("rank") == rank]


def pause(ran: Ran) -> float:
    """The longest that rank 1 has stood still between two steps."""
    times = [one["t"] for kind in ("worker", "step") for one in events(ran, kind)]
    return max(float(after - before) for before, after in pairwise(times))


@pytest.mark.parametrize(
    "kind, settings, code",
    [
        ("kill", {}, 137),
        ("kill", {"signal": "SIGTERM"}, 143),
        ("exit", {"code": 7}, 7),
        ("exception", {}, 1),
        ("segfault", {}, 139),
        ("abort", {}, 134),
        ("oom", {}, 1),
    ],
)
def test_a_process_ends(tmp_path: Path, kind: str, settings: dict[str, Any], code: int) -> None:
    ran = run(tmp_path, plan(kind, settings, outcome="fails"), job())
    assert ran.code == 0
    assert ran.said("outcome") == f"exit code {code}"
    assert events(ran, "fault")[0]["where"] == "step 20"
    assert events(ran, "step")[-1]["step"] == 20
    assert events(ran, "finished", rank=0)  # the other one goes on


@pytest.mark.parametrize(
    "kind, at, settings",
    [
        ("freeze", "step = 20", {"for": 0.3}),
        ("hang", "step = 20", {"for": 0.3}),
        ("hang", "step = 20", {"for": 0.3, "gil": True}),
        ("hang", 'op = "all_reduce", count = 30, moment = "after"', {"for": 0.3}),
        ("slow", 'op = "any", step = 20', {"delay": 0.3, "for": 0.3}),
        ("freeze", "seconds = 0.1", {"for": 0.3}),
        ("hang", "seconds = 0.1", {"for": 0.3}),
    ],
)
def test_a_process_stands_still(tmp_path: Path, kind: str, at: str, settings: dict[str, Any]) -> None:
    ran = run(tmp_path, plan(kind, settings, at), job())
    assert ran.code == 0
    assert pause(ran) > 0.28
    assert len(events(ran, "fault")) == 1


def test_a_process_gets_less_time(tmp_path: Path) -> None:
    ran = run(tmp_path, plan("starve", {"share": 0.1, "period": 0.2, "for": 0.5}), job())
    assert ran.code == 0
    assert pause(ran) > 0.15
    assert events(ran, "step")[-1]["step"] == 40


@pytest.mark.parametrize("kind, settings", [("cut", {}), ("cut", {"peers": [0]}), ("loss", {"share": 0.99})])
def test_what_comes_in_is_lost(tmp_path: Path, kind: str, settings: dict[str, Any]) -> None:
    ran = run(tmp_path, plan(kind, {**settings, "for": 0.4}), job(port=free_port()))
    assert ran.code == 0
    assert pause(ran) > 0.3  # then TCP sends it again
    assert events(ran, "step")[-1]["step"] == 40


def test_what_comes_in_is_late(tmp_path: Path) -> None:
    ran = run(tmp_path, plan("delay", {"delay": 0.1, "for": 0.3}), job(port=free_port()))
    assert ran.code == 0
    assert pause(ran) > 0.09
    assert events(ran, "over")


def test_what_comes_in_is_another(tmp_path: Path) -> None:
    ran = run(tmp_path, plan("corrupt", {"part": "header"}), job(port=free_port()))
    assert ran.code == 0
    assert [one["text"] for one in events(ran, "note")] == ["heard b'h'"]


def test_two_sides_do_not_hear_each_other(tmp_path: Path) -> None:
    ran = run(tmp_path, plan("partition", {"for": 0.4}), job(port=free_port()))
    assert ran.code == 0
    assert pause(ran) > 0.3
    assert [len(events(ran, kind, rank)) for kind in ("fault", "over") for rank in (0, 1)] == [1] * 4
    assert events(ran, "step")[-1]["step"] == 40


def test_connections_are_reset(tmp_path: Path) -> None:
    ran = run(tmp_path, plan("reset", {}, outcome="fails"), job(port=free_port()))
    assert ran.said("outcome") == "exit code 3"
    assert events(ran, "step")[-1]["step"] == 20


def test_what_cannot_be_done_is_told(tmp_path: Path) -> None:
    ran = run(tmp_path, plan("reset", {}), job())
    assert ran.code == 2
    assert "no such TCP connection" in ran.said("injected")


def test_descriptors_run_out(tmp_path: Path) -> None:
    ran = run(tmp_path, plan("descriptors", {"for": 0.1}), job())
    assert ran.code == 0
    assert {one["text"] for one in events(ran, "note")} == {"Too many open files"}


def test_what_is_taken_from_a_process_is_given_back(tmp_path: Path) -> None:
    for kind in ("no-room", "no-folder", "clock"):
        ran = run_in(tmp_path / kind, plan(kind, {"for": 0.1}), job())
        assert ran.code == 0
        assert len(events(ran, "fault")) == 1
        assert not events(ran, "not-injected")
        assert (ran.folder / "records").is_dir()


def test_a_fault_happens_as_often_as_it_should(tmp_path: Path) -> None:
    text = plan("freeze", {"for": 0.05}, 'op = "all_reduce", step = 2').replace("rank = 1", "rank = 1\ntimes = 3")
    ran = run(tmp_path, text, job())
    assert ran.code == 0
    assert [one["where"] for one in events(ran, "fault")] == ["before all_reduce"] * 3


def test_what_hangs_for_good_is_ended(tmp_path: Path) -> None:
    ran = run(tmp_path, plan("hang", {}).replace("duration = 60", "duration = 1"), job())
    assert ran.code == 1
    assert "ends" in ran.report["violated"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
