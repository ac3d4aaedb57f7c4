"""The whole command, from files to output, without torch: each subcommand once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pycomms._command_line import USAGE
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


def test_what_else_lies_in_the_folder_stops_no_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = tmp_path / "records"
    job.mkdir()
    _bundle.write(job / "job", missing_rank())
    os.mkfifo(job / "rank1.1.ring")
    (job / "rank2.2.ring").touch()
    (job / "rank3.3.ring").mkdir()
    (job / "rank3.3.ring" / "rank4.4.ring").write_bytes(b"PYCOMMSF")
    (job / "rank5.5.ring").symlink_to(tmp_path / "nowhere")
    (job / "circle").symlink_to(job)
    (job / "rank6.6.1.part").write_bytes(bytes(100))
    assert _command.main(["analyze", str(job)]) == 1
    assert "root ranks [5]" in capsys.readouterr().out
    assert _command.main(["live", "--once", str(job)]) == 0
    assert capsys.readouterr().out.count("not readable") == 5
    assert _command.main(["dump", str(job), "-o", str(tmp_path / "dumps")]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 5
    assert not [*tmp_path.glob("dumps/*")]


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
    assert _command.main(["convert", str(job), "--to", "pdf", "-o", "x"]) == USAGE
    assert "torch-pickle" in capsys.readouterr().err


@pytest.mark.parametrize("interval", ["nan", "inf", "-1", "x"])
def test_an_interval_that_cannot_be_is_a_usage_error(interval: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _command.main(["live", f"--interval={interval}", "--once"]) == USAGE
    assert f"'{interval}' is not a number of seconds from 0 to 86400" in capsys.readouterr().err
