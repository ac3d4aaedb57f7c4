"""The trace is what trace viewers open, and shows what was recorded."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pycomms.flight_recorder import _perfetto
from pycomms.flight_recorder._model import Flag, Record, State
from pycomms.flight_recorder.analysis import Analysis, Finding, Verdict

from ._jobs import MS, Rank, healthy, missing_rank, signature, world_group


def trace(records: list[Record], folder: Path, analysis: Analysis | None = None) -> dict[str, Any]:
    _perfetto.write(folder / "trace.json", records, analysis or Analysis())
    read: dict[str, Any] = json.loads((folder / "trace.json").read_bytes())
    return read


def spans(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in found["traceEvents"] if event["ph"] == "X"]


def overlapping(size: int) -> list[Record]:
    """Asynchronous operations: each begins in the middle of the one before."""
    writer = Rank(rank=0, world_size=1)
    for sequence in range(1, size + 1):
        writer.op(world_group(1), signature("all_reduce"), sequence, at=sequence * MS, took=3 * MS, flags=Flag.ASYNC)
    return [writer.record(taken=100 * MS)]


@pytest.mark.parametrize("records", [healthy(), missing_rank(), overlapping(20), []], ids=str)
def test_times_grow_and_spans_of_a_track_do_not_overlap(records: list[Record], tmp_path: Path) -> None:
    tracks = defaultdict(list)
    for span in spans(trace(records, tmp_path)):
        assert span["ts"] >= 0
        assert span["dur"] >= 0
        tracks[span["pid"], span["tid"]].append(span)
    for track in tracks.values():
        for before, after in pairwise(track):
            assert before["ts"] + before["dur"] <= after["ts"] + 1e-3


def test_every_track_has_a_name_and_every_operation_is_there(tmp_path: Path) -> None:
    records = missing_rank()
    found = trace(records, tmp_path)
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in found["traceEvents"]
        if event["name"] in ("thread_name", "process_name")
    }
    drawn = spans(found)
    assert len(drawn) == sum(len(record.entries) for record in records)
    assert {names[span["pid"], span["tid"]] for span in drawn} == {"tp0", "tp1", "tp2", "tp3", "dp0", "dp1"}
    assert names[3, 0] == "rank 3 node0:4003"


def test_an_operation_says_what_was_asked(tmp_path: Path) -> None:
    first = spans(trace(missing_rank(), tmp_path))[0]
    assert first["name"] == "all_reduce"
    assert first["args"]["operation"] == "all_reduce sum float32[4194304]"
    assert first["args"]["bytes"] == 16 * 2**20
    assert first["args"]["called at"] == "layers/mlp.py:88"


def test_what_has_not_ended_reaches_to_the_end_of_the_record(tmp_path: Path) -> None:
    stuck = [span for span in spans(trace(missing_rank(), tmp_path)) if span["cat"] == "running"]
    assert stuck
    ends = {round((span["ts"] + span["dur"]) / 1e6, 2) for span in stuck}
    assert ends == {630.0}


def test_the_root_cause_is_marked(tmp_path: Path) -> None:
    analysis = Analysis(findings=(Finding(verdict=Verdict.MISSING_RANK, root_ranks=(5,)),))
    found = trace(missing_rank(), tmp_path, analysis)
    assert found["otherData"]["verdict"] == "MISSING_RANK"
    (name,) = [e["args"]["name"] for e in found["traceEvents"] if e["name"] == "process_name" and e["pid"] == 5]
    assert name == "rank 5 (root cause) node1:4005"


def test_hosts_are_brought_to_one_clock(tmp_path: Path) -> None:
    found = trace(healthy(hosts=("a", "b"), clocks_ns=(0, 5_000 * MS)), tmp_path)
    first = {span["pid"]: span["ts"] for span in reversed(spans(found))}
    assert max(first.values()) < 5_000
    assert "moved" in found["otherData"]["clocks"]


def test_tracks_are_used_again() -> None:
    assert _perfetto.assign_tracks([0, 5, 10, 11], [10, 20, 11, 12]) == [0, 1, 0, 0]


def test_an_operation_that_was_refused_is_shown(tmp_path: Path) -> None:
    writer = Rank(rank=0, world_size=1)
    writer.op(world_group(1), signature("all_reduce"), 1, at=0, state=State.REJECTED, error="shape </script>")
    (span,) = spans(trace([writer.record(taken=MS)], tmp_path))
    assert span["args"]["error"] == "shape </script>"
