"""The whole command, from files to output, without torch: each subcommand once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pycomms.flight_recorder import _bundle, _command

from ._jobs import missing_rank


@pytest.fixture
def job(tmp_path: Path) -> Path:
    _bundle.write(tmp_path / "job", missing_rank())
    return tmp_path / "job"


def test_a_merged_file_is_analyzed(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, trace = tmp_path / "report.html", tmp_path / "trace.json"
    assert _command.main(["analyze", str(job), "--json", "--html", str(report), "--perfetto", str(trace)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["root_ranks"]) == ("MISSING_RANK", [5])
    assert "Rank 5 did not join" in report.read_text()
    assert json.loads(trace.read_text())["otherData"]["verdict"] == "MISSING_RANK"


def test_conversion_and_back(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command.main(["convert", str(job), "--to", "torch-json", "-o", str(tmp_path / "dumps")]) == 0
    assert _command.main(["merge", str(tmp_path / "dumps"), "-o", str(tmp_path / "again")]) == 0
    capsys.readouterr()
    assert _command.main(["analyze", str(tmp_path / "again"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["root_ranks"] == [5]


def test_figures(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command.main(["stats", str(job), "--json"]) == 0
    kinds = {one["kind"] for one in json.loads(capsys.readouterr().out)["operations"]}
    assert kinds == {"all_reduce", "reduce_scatter_single"}


@pytest.mark.parametrize("subcommand", ["analyze", "live", "stats", "merge", "convert"])
def test_each_explains_itself(subcommand: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command.main([subcommand, "--help"]) == 0
    assert "usage: pycomms fr" in capsys.readouterr().out


def test_a_format_that_is_unknown_is_a_usage_error(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command.main(["convert", str(job), "--to", "pdf", "-o", "x"]) == _command.USAGE
    assert "torch-pickle" in capsys.readouterr().err
