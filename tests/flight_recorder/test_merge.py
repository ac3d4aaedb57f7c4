"""Many records in one file: all comes back, damage costs what is damaged, and nothing in it can do harm."""

from __future__ import annotations

import argparse
import base64
import json
import zlib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from pycomms.flight_recorder import _bundle, _merge
from pycomms.flight_recorder._command import UNUSABLE
from pycomms.flight_recorder._model import Record, Site, State
from pycomms.flight_recorder._processes import one_of_each_process

from ._jobs import MS, Rank, missing_rank, signature, world_group


def assert_same(left: Record, right: Record) -> None:
    for field in fields(Record):
        if field.name == "entries":
            assert np.array_equal(left.entries, right.entries)
        else:
            assert getattr(left, field.name) == getattr(right, field.name)


def test_everything_comes_back(tmp_path: Path) -> None:
    writer = Rank(rank=3, world_size=4, host="a b\n\u2028ü")
    site = Site(file="a.py", line=3, stack=(("a.py", 3, "f"), ("b.py", 4, "g")))
    writer.op(world_group(4), signature("all_reduce"), 1, at=0, state=State.FAILED, error="no\nway", site=site)
    records = [*missing_rank(), writer.record(taken=MS), Rank(rank=0, world_size=1).record(taken=0)]
    assert _bundle.write(tmp_path / "job", records) == 10
    assert _bundle.is_bundle(tmp_path / "job")
    for before, after in zip(records, _bundle.read(tmp_path / "job"), strict=True):
        assert_same(before, after)


def read_until_damage(file: Path) -> list[Record]:
    records: list[Record] = []
    with pytest.raises(ValueError, match=r"cut off|damaged"):
        records.extend(_bundle.read(file))
    return records


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_of_a_file_that_was_cut_off_every_complete_record_is_read(kept: float, tmp_path: Path) -> None:
    file = tmp_path / "job"
    _bundle.write(file, missing_rank())
    data = file.read_bytes()
    cut = data[: round(len(data) * kept)]
    file.write_bytes(cut)
    assert len(read_until_damage(file)) == max(cut.count(b"\n") - 1, 0)


def test_records_that_are_missing_at_the_end_are_noticed(tmp_path: Path) -> None:
    file = tmp_path / "job"
    _bundle.write(file, missing_rank())
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:4]))
    assert len(read_until_damage(file)) == 3


def with_field(file: Path, name: str, value: object) -> None:
    head, line, end = file.read_text().splitlines()
    file.write_text("\n".join([head, json.dumps({**json.loads(line), name: value}), end, ""]))


@pytest.mark.parametrize(
    "name, value",
    [
        ("count", 10**9),
        ("count", -1),
        ("packed", base64.b64encode(zlib.compress(bytes(10**8))).decode()),
        ("packed", "AAAA"),
        ("groups", []),
        ("groups", [{"__class__": "os.system"}]),
    ],
)
def test_lines_that_lie_are_not_believed(name: str, value: object, tmp_path: Path) -> None:
    file = tmp_path / "job"
    _bundle.write(file, missing_rank()[:1])
    with_field(file, name, value)
    assert read_until_damage(file) == []


def test_a_line_nested_too_deep_to_be_a_record_is_damage(tmp_path: Path) -> None:
    file = tmp_path / "job"
    _bundle.write(file, missing_rank()[:2])
    head, line, *_ = file.read_text().splitlines()
    file.write_text("\n".join([head, line, "[" * 200_000 + "]" * 200_000, ""]))
    assert len(read_until_damage(file)) == 1


def test_another_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "job"
    file.write_text('{"pycomms_fr_bundle":2,"rows":[]}\n')
    with pytest.raises(ValueError, match="version 2; this pycomms reads version 1"):
        list(_bundle.read(file))


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    _merge.add_arguments(parser)
    return parser.parse_args(words)


def test_merged_files_can_be_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = missing_rank()
    _bundle.write(tmp_path / "one", records[:3])
    _bundle.write(tmp_path / "two", records[3:])
    output = tmp_path / "out" / "all"
    output.parent.mkdir()
    assert _merge.run(options(str(tmp_path / "two"), str(tmp_path / "one"), "-o", str(output))) == 0
    assert "8 records" in capsys.readouterr().out
    assert [record.rank for record in _bundle.read(output)] == [*range(8)]


def test_of_a_process_the_record_that_knows_most_is_kept() -> None:
    ring, other = (replace(record, started_ns=5) for record in missing_rank()[:2])
    dump = replace(ring, source="dump", entries=ring.entries[:3])
    unknown = replace(ring, pid=0)
    assert one_of_each_process([dump, other, ring, unknown, unknown]) == [ring, other, unknown, unknown]
    later = replace(ring, started_ns=6)  # a process of the same number, after the host was restarted
    assert one_of_each_process([ring, later]) == [ring, later]


def test_what_was_lost_is_said_and_the_rest_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _bundle.write(tmp_path / "one", missing_rank())
    (tmp_path / "one").write_text("".join((tmp_path / "one").read_text().splitlines(keepends=True)[:4]))
    assert _merge.run(options(str(tmp_path / "one"), "-o", str(tmp_path / "all"))) == 0
    said = capsys.readouterr()
    assert "cut off after 3 records, which were read" in said.err
    assert "3 records in" in said.out


def test_nothing_to_merge_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert _merge.run(options(str(tmp_path), "-o", str(tmp_path / "all"))) == UNUSABLE
    assert "no records in" in capsys.readouterr().err
    assert not (tmp_path / "all").exists()


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _bundle.write(tmp_path / "one", missing_rank())
    assert _merge.run(options(str(tmp_path / "one"), "-o", "/dev/full/all")) == UNUSABLE
    assert "cannot write" in capsys.readouterr().err
