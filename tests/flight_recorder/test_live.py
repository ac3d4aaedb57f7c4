"""The live table: rows from records and a clock, and what the shell prints."""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pycomms.flight_recorder import _live
from pycomms.flight_recorder._command import UNUSABLE
from pycomms.flight_recorder._model import Record, Site, State

from ._jobs import MS, START_NS, Rank, healthy, missing_rank, signature, world_group

NOW = START_NS + 700_000 * MS


def test_a_row_says_where_the_rank_is_and_since_when() -> None:
    row = _live.look(missing_rank(), NOW)[4]
    assert (row.rank, row.host, row.pid, row.alive) == (4, "node1", 4004, True)
    assert (row.operation, row.group, row.sequence, row.state) == ("all_reduce", "tp2", 6, "running")
    assert row.site == "layers/mlp.py:88"
    assert row.age_ns is not None
    assert round(row.age_ns / 1e9) == 700
    assert row.last_completed == "reduce_scatter_single dp0[5]"


def test_between_operations_a_row_says_for_how_long() -> None:
    row = _live.look(missing_rank(), NOW)[5]
    assert row.operation == ""
    assert row.in_flight == 0
    assert row.quiet_ns is not None
    assert row.quiet_ns > 699e9
    assert _live.cells(row)[5:8] == ("-", "-", "-")


def test_the_oldest_unfinished_operation_counts() -> None:
    writer = Rank(rank=0, world_size=2)
    for sequence, state in enumerate((State.COMPLETED, State.RUNNING, State.COMPLETED, State.ISSUED), 1):
        writer.op(world_group(2), signature("all_reduce"), sequence, at=sequence * MS, state=state)
    (row,) = _live.look([writer.record(taken=10 * MS, alive=True)], NOW)
    assert (row.sequence, row.in_flight) == (2, 2)
    assert _live.cells(row)[5] == "all_reduce (+1 behind)"


def test_what_failed_before_a_regroup_is_over() -> None:
    writer = Rank(rank=0, world_size=4)
    whole = replace(world_group(4), generation=1)
    writer.op(whole, signature("all_reduce"), 1, at=MS)
    writer.op(whole, signature("all_reduce"), 2, at=2 * MS, state=State.FAILED)
    (row,) = _live.look([writer.record(taken=10 * MS, alive=True)], NOW)
    assert _live.cells(row)[5] == "all_reduce (failed)"
    left = replace(world_group(3), generation=2)
    writer.op(left, signature("all_reduce"), 1, at=3 * MS)
    (row,) = _live.look([writer.record(taken=10 * MS, alive=True)], NOW)
    assert (row.operation, row.last_completed) == ("", "all_reduce default_pg[1]")
    writer.op(left, signature("all_reduce"), 2, at=4 * MS, state=State.FAILED)
    (row,) = _live.look([writer.record(taken=10 * MS, alive=True)], NOW)
    assert (row.state, row.group, row.sequence, row.last_completed) == (
        "failed",
        "default_pg",
        2,
        "all_reduce default_pg[1]",
    )


def test_a_dead_process_is_shown_last_and_does_not_age() -> None:
    records = [replace(record, alive=record.rank != 0) for record in missing_rank()]
    rows = _live.look(records, NOW + 10**12)
    assert [row.rank for row in rows] == [1, 2, 3, 4, 5, 6, 7, 0]
    assert rows[-1].age_ns is not None
    assert rows[-1].age_ns < 631e9
    assert rows[-1].quiet_ns is not None
    assert rows[-1].quiet_ns > 10**12
    assert "NO" in _live.table(rows).splitlines()[-1]


def test_of_a_process_killed_right_after_it_issued_nobody_knows_the_age() -> None:
    writer = Rank(rank=0, world_size=2)
    writer.op(world_group(2), signature("all_reduce"), 1, at=MS, state=State.RUNNING)
    record = writer.record(taken=2 * MS, alive=False)
    issued = int(record.entries["issued_ns"][0])
    (row,) = _live.look([replace(record, taken_ns=issued)], NOW)
    assert row.age_ns is None
    assert _live.cells(row)[8] == "?"


def test_below_the_table_it_is_said_when_nobody_is_alive() -> None:
    some = [replace(record, alive=record.rank == 0) for record in healthy()]
    none = [replace(record, alive=False) for record in some]
    assert "none of these processes is alive" not in _live.notes(_live.look(some, NOW), [])
    assert "none of these processes is alive" in _live.notes(_live.look(none, NOW), [])


def test_only_jobs_that_somebody_can_act_on_are_shown() -> None:
    old = [replace(record, job="old", alive=False) for record in healthy()]
    new = [replace(record, alive=record.rank > 1, closed=record.rank == 0) for record in healthy()]
    assert [record.rank for record in _live.of_interest([*old, *new])] == [1, 2, 3]
    ended = [replace(record, closed=True) for record in old]
    assert _live.of_interest([*ended, replace(old[0], job="older", taken_ns=1)]) == ended
    assert _live.of_interest([]) == []


def test_the_job_is_a_column_only_where_there_are_several() -> None:
    one = _live.look(healthy(), NOW)
    assert _live.table(one).startswith("rank")
    two = _live.look([*healthy(), *(replace(record, job="other") for record in healthy())], NOW)
    assert _live.table(two).startswith("job")
    assert len(_live.table(two).splitlines()) == 9


def test_rich_draws_the_same_rows() -> None:
    console = pytest.importorskip("rich.console")
    screen = console.Console(width=200, file=io.StringIO())
    screen.print(_live.rich_table(_live.look(missing_rank(), NOW), ["a: gone"], NOW))
    drawn = screen.file.getvalue()
    assert "layers/mlp.py:88" in drawn
    assert "8 ranks" in drawn
    assert "not readable: a: gone" in drawn


def test_it_looks_until_it_is_interrupted(
    rings: dict[Path, Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(seconds: float) -> None:
        assert seconds == 2.5
        raise KeyboardInterrupt

    monkeypatch.setattr("pycomms.flight_recorder._live.time.sleep", interrupted)
    assert _live.run(options(tmp_path, "--interval", "2.5"), read=rings.__getitem__) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7


def test_names_cannot_steer_the_terminal() -> None:
    writer = Rank(rank=0, world_size=1, host="evil\x1b[2Jhost")
    writer.op(world_group(1), signature("all_reduce"), 1, at=0, site=Site(file="a\nb\x07.py", line=1))
    text = _live.table(_live.look([writer.record(taken=MS)], NOW))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert len(text.splitlines()) == 2


@pytest.fixture
def rings(tmp_path: Path) -> dict[Path, Record]:
    (tmp_path / "job7").mkdir()
    found = {tmp_path / "job7" / record.source: record for record in healthy()}
    for file in found:
        file.touch()
    return found


def options(folder: Path, *flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    _live.add_arguments(parser)
    return parser.parse_args([str(folder), *flags])


def test_once_prints_a_line_a_rank(
    rings: dict[Path, Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _live.run(options(tmp_path, "--once"), read=rings.__getitem__) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    assert lines[5:] == ["none of these processes is alive", lines[6]]
    assert lines[6].startswith("records: ")
    assert lines[0].split()[:3] == ["rank", "host", "pid"]


def test_json_is_one_object_a_look(
    rings: dict[Path, Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(file: Path) -> Record:
        if "rank2" in file.name:
            raise ValueError("not a ring")
        return rings[file]

    assert _live.run(options(tmp_path, "--once", "--json"), read=read) == 0
    seen = json.loads(capsys.readouterr().out)
    assert [row["rank"] for row in seen["ranks"]] == [0, 1, 3]
    assert seen["problems"] == ["rank2.ring: not a ring"]


def test_an_empty_folder_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _live.run(options(tmp_path, "--once")) == UNUSABLE
    assert "no *.ring" in capsys.readouterr().err
