"""The command: what it prints, how it exits, what it imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pycomms.flight_recorder import _command
from pycomms.flight_recorder._model import Record
from tests.flight_recorder import corpus_absent, corpus_disagreeing, corpus_healthy
from tests.flight_recorder.dumps import write_pickles

CASCADE = corpus_absent.tensor_parallel_hang_cascades_to_data_parallel


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = _command.main(["analyze", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    "make, code",
    [(corpus_healthy.plain, 0), (CASCADE, 1), (corpus_disagreeing.two_ranks_issue_different_ops, 2)],
)
def test_exit_codes(make: Callable[[], list[Record]], code: int, run: Run, tmp_path: Path) -> None:
    write_pickles(make(), tmp_path)
    assert run(str(tmp_path))[0] == code


def test_nothing_to_read_is_3_and_wrong_usage_4(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing", encoding="utf-8")
    assert run(str(tmp_path))[0] == 3
    assert run(str(tmp_path / "missing"))[0] == 3
    assert run(str(tmp_path), "--ranks", "x")[0] == 4
    assert _command.main(["frobnicate"]) == 4


def test_without_a_path_the_records_of_this_host_are_read(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYCOMMS_FR_DIR", str(tmp_path))
    assert run()[0] == 3
    (tmp_path / "job").mkdir()
    write_pickles(CASCADE(), tmp_path / "job")
    code, out, _ = run()
    assert code == 1
    assert out.startswith("MISSING_RANK root ranks [5]")


def test_ranks_and_groups_that_are_not_there_are_said(run: Run, tmp_path: Path) -> None:
    write_pickles(CASCADE(), tmp_path)
    _, _, err = run(str(tmp_path), "--ranks", "99", "--groups", "none")
    assert "--ranks: none of these is in the job, which has ranks 0-7" in err
    assert "--groups: none of these is in the job, which has default_pg, dp0, dp1, " in err


def test_a_report_is_written_though_nobody_reads_the_text(tmp_path: Path) -> None:
    write_pickles(CASCADE(), tmp_path)
    report = tmp_path / "report.html"
    reader, writer = os.pipe()
    os.close(reader)
    try:
        command = [sys.executable, "-m", "pycomms", "fr", "analyze", str(tmp_path), "--html", str(report)]
        subprocess.run(command, stdout=writer, timeout=60, check=False)
    finally:
        os.close(writer)
    assert report.stat().st_size > 0


def test_the_headline(run: Run, tmp_path: Path) -> None:
    write_pickles(CASCADE(), tmp_path)
    _, out, _ = run(str(tmp_path))
    first = out.splitlines()[0]
    assert first.startswith(
        "MISSING_RANK root ranks [5] group tp2 seq 4 all_reduce; last op of 5: seq 3 at train.py:80; victims: "
    )
    assert "tp2[4]" in first
    assert "dp0[0,2,6]" in first


def test_the_json(run: Run, tmp_path: Path) -> None:
    write_pickles(CASCADE(), tmp_path)
    _, out, _ = run(str(tmp_path), "--json", "--explain")
    found = json.loads(out)
    assert found["schema"] == 1
    assert found["verdict"] == "MISSING_RANK"
    assert found["root_ranks"] == [5]
    assert found["group"] == {"name": "3", "desc": "tp2", "ranks": [4, 5]}
    assert (found["op"]["kind"], found["op"]["seq"]) == ("all_reduce", 4)
    assert found["sites"][0]["file"] == "train.py"
    assert {
        "group": "5",
        "desc": "dp0",
        "ranks": [0, 2, 6],
        "op": {"kind": "reduce_scatter_single", "seq": 4},
    } in found["victims"]
    assert found["findings"][0]["verdict"] == "MISSING_RANK"
    assert {"rank": 4, "waits_for": [5]}.items() <= next(one for one in found["waits"] if one["rank"] == 4).items()


def test_narrowed_to_ranks_and_groups(run: Run, tmp_path: Path) -> None:
    write_pickles(CASCADE(), tmp_path)
    code, out, _ = run(str(tmp_path), "--ranks", "5", "--explain")
    assert code == 1
    assert "rank 4 in all_reduce 4 of tp2 waits for rank 5" in out
    assert "of dp0 waits" not in out
    code, out, _ = run(str(tmp_path), "--groups", "dp0", "--explain", "--json")
    assert code == 1
    assert {one["group"]["desc"] for one in json.loads(out)["waits"]} == {"dp0"}


def test_imports_neither_torch_nor_rich(tmp_path: Path) -> None:
    import subprocess

    write_pickles(corpus_healthy.plain(), tmp_path)
    program = (
        "import sys; sys.argv = ['pycomms']\n"
        "from pycomms.__main__ import main\n"
        f"assert main(['fr', 'analyze', {str(tmp_path)!r}]) == 0\n"
        "assert not {'torch', 'rich', 'asyncio', 'multiprocessing'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
