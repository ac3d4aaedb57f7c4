"""The table of who gets over what: from results, and the one in docs/ is that of the results that are kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.chaos.table import gather, main, render
from pycomms.chaos._plans import standard_set

ROOT = Path(__file__).parents[2]


def set_of(folder: Path, **endings: tuple[str, float | None]) -> Path:
    folder.mkdir()
    plans = [{"name": name, "ending": ending, "recovery": took} for name, (ending, took) in endings.items()]
    (folder / "set.json").write_text(json.dumps({"plans": plans}))
    return folder


def test_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = set_of(tmp_path / "ours", kill=("goes on", 0.0534), late=("goes on", 1.25))
    other = set_of(tmp_path / "other", kill=("hangs", None), late=("not applicable", None))
    again = set_of(tmp_path / "again", kill=("begins anew", 3.01), late=("not known", None))
    assert main([f"ours={ours}", f"other={other}", f"both={other},{again}", "--keep", str(tmp_path / "kept")]) == 0
    table = capsys.readouterr().out
    assert table.splitlines() == [
        "| plan | ours | other | both |",
        "| --- | --- | --- | --- |",
        "| `kill` | goes on, 53 ms | **hangs** | begins anew, 3.0 s |",
        "| `late` | goes on, 1.2 s | n/a | n/a |",
        "| *goes on* | 2 |  |  |",
        "| *begins anew* |  |  | 1 |",
        "| *hangs* |  | 1 |  |",
        "| *not applicable* |  | 1 | 1 |",
    ]
    assert main(["--from", str(tmp_path / "kept")]) == 0
    assert capsys.readouterr().out == table


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"set\.json"):
        gather({"ours": [tmp_path]})


def test_the_table_of_the_docs() -> None:
    results = json.loads((ROOT / "bench" / "chaos" / "results.json").read_text())
    assert render(results) in (ROOT / "docs" / "chaos.md").read_text()
    assert {plan.name for plan in standard_set()} == set(results["pycomms"])
